//! Small requests share messages: those that arrive while a publish of the same caller is under way are published together.
//!
//! Nothing waits for a timer. A request that finds no publish of its caller under way is published at once, in a message
//! of its own; the requests that arrive until the broker has confirmed it form the next message. Callers do not wait for each other:
//! each has at most one publish under way, and the broker confirms those of different callers independently.

mod publish;
mod waiting;

use super::QueuePublisher;
use super::batch::ValidBatch;
use crate::admission::Share;
use common::broker::CallError;
use common::caller::Caller;
use common::trace::RequestContext;
use publish::Publisher;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::Span;
use waiting::{PublishState, WaitingRequest};

/// A request whose batch is small enough to share a message.
#[derive(Debug)]
pub(crate) struct SmallRequest {
    pub(crate) request_context: RequestContext,
    pub(crate) batch: ValidBatch,
    /// Until when the broker must have confirmed its message.
    pub(crate) confirm_by: Instant,
    /// Until when there must be a result.
    pub(crate) reply_by: Instant,
    /// Its share of the backlog.
    pub(crate) share: Option<Share>,
}

/// Publishes small requests to the queue of events; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Bundles {
    publisher: Arc<Publisher>,
}

impl Bundles {
    pub(crate) fn new(queue: QueuePublisher) -> Self {
        Self { publisher: Arc::new(Publisher::new(queue)) }
    }

    /// Publishes a request, alone or with others of its caller, and returns its own result: JSON of a `BatchResult`.
    pub(crate) async fn submit(&self, caller: &Caller, request: SmallRequest) -> Result<Vec<u8>, CallError> {
        let (confirm_by, reply_by) = (request.confirm_by, request.reply_by);
        let (sender, mut result) = oneshot::channel();
        let state = Arc::new(PublishState::default());
        let span = Span::current();
        let waiting = WaitingRequest { request, span, state: Arc::clone(&state), result: sender };
        self.publisher.enqueue(caller, waiting);
        let received = match timeout_at(confirm_by, &mut result).await {
            Ok(received) => received,
            // The request was not published, and will not be.
            Err(_) if state.decide() => return Err(CallError::Unavailable),
            Err(_) => timeout_at(reply_by, result).await.map_err(|_| CallError::NoReply)?,
        };
        received.unwrap_or(Err(CallError::NoReply))
    }
}
