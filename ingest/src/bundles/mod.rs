//! Small requests share messages: what arrives while a publish of the same caller is under way is published together.
//!
//! Nothing waits for a timer. A request that finds no publish of its caller under way is published at once, in a message
//! of its own; what arrives until the broker has confirmed it is the next message. Callers don't wait for each other:
//! each has at most one publish under way, and the broker confirms those of different callers independently.

mod publish;
mod waiting;

use crate::backlog::Share;
use crate::submit::ValidBatch;
use common::broker::{CallError, Rpc};
use common::caller::Caller;
use common::trace::Trail;
use publish::Publisher;
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Span;
use waiting::{Handover, WaitingRequest};

/// A request whose batch is small enough to share a message.
#[derive(Debug)]
pub struct SmallRequest {
    /// Which request.
    pub trail: Trail,
    /// What it sent.
    pub batch: ValidBatch,
    /// Until when the broker must have confirmed it.
    pub confirm_by: Instant,
    /// Until when there must be a result.
    pub reply_by: Instant,
    /// Its share of what may wait to be applied.
    pub share: Option<Share>,
}

/// Why a request has no result.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Rejection {
    /// Nothing was published: the queue of waiting requests is full.
    #[error("too many requests wait to be published")]
    TooManyWaiting,
    /// As for a message of its own.
    #[error(transparent)]
    Call(#[from] CallError),
}

/// The way of small requests to the queue of events; cheap to clone.
#[derive(Clone, Debug)]
pub struct Bundles {
    publisher: Arc<Publisher>,
}

impl Bundles {
    /// Publishes with `rpc`.
    pub fn new(rpc: Rpc) -> Self {
        Self { publisher: Arc::new(Publisher::new(rpc)) }
    }

    /// Publishes a request, alone or with others of its caller, and gives its own result: JSON of a `BatchResult`.
    pub async fn submit(&self, caller: &Caller, request: SmallRequest) -> Result<Vec<u8>, Rejection> {
        let (confirm_by, reply_by) = (request.confirm_by, request.reply_by);
        let (sender, mut result) = oneshot::channel();
        let handover = Arc::new(Handover::default());
        let span = Span::current();
        let waiting = WaitingRequest { request, span, handover: Arc::clone(&handover), result: sender };
        self.publisher.enqueue(caller, waiting).map_err(|_| Rejection::TooManyWaiting)?;
        let told = match timeout_at(confirm_by, &mut result).await {
            Ok(told) => told,
            // Nothing was published, and won't be.
            Err(_) if handover.give_up() => return Err(CallError::Unavailable.into()),
            Err(_) if !handover.is_confirmed() => return Err(CallError::NoAnswer.into()),
            Err(_) => timeout_at(reply_by, result).await.map_err(|_| CallError::NoAnswer)?,
        };
        Ok(told.unwrap_or(Err(CallError::NoAnswer))?)
    }
}
