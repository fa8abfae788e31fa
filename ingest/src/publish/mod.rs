//! Publishes a request to a queue and waits for the worker's reply (D9).
//!
//! [`QueuePublisher`] is the path of every such request: its share of the backlog, the publish, the wait for the reply,
//! and the refusal if there is none. It has two uses, which build the messages and parse the replies: [`events`] and
//! [`writes`].
//!
//! A caller that hangs up loses nothing. Before the publish nothing was ingested, written or confirmed; the signature
//! may be used up, but a retry has a new signature in any case. After the publish the message is applied exactly once.
//! The publish and the wait for its reply continue without the caller, and so does the message's share of the backlog:
//! hanging up frees nothing.

mod bundles;
pub(crate) mod events;
pub(crate) mod writes;

use crate::admission::{Backlog, Share};
use crate::refusal::{OverloadReason, Refusal};
use bytes::Bytes;
use common::broker::{CallError, Holds, Rpc, RpcRequest};
use common::bundle::BundledRequest;
use common::metrics::EVENTS_ACCEPTED;
use common::model::TenantId;
use std::future::pending;
use tokio::time::Instant;
use tracing::Instrument;
use uuid::Uuid;

/// Publishes to one queue, within its backlog; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct QueuePublisher {
    rpc: Rpc,
    backlog: Backlog,
}

/// A message of one or more requests. It borrows nothing, so that it can outlive its callers.
#[derive(Debug)]
struct RequestMessage {
    id: Uuid,
    /// JSON for the worker.
    meta: String,
    /// W3C trace context.
    traceparent: Option<String>,
    body: Bytes,
    /// The number of events that count as accepted once it is known to be in the queue.
    accepted: u16,
    /// Until when the broker must have confirmed it.
    confirm_by: Instant,
    /// Until when there must be a reply.
    reply_by: Instant,
}

impl RequestMessage {
    /// Bytes of its metadata and body.
    const fn size(&self) -> usize {
        self.meta.len() + self.body.len()
    }

    /// Its events, or one of a write.
    const fn weight(&self) -> u16 {
        if self.accepted == 0 { 1 } else { self.accepted }
    }

    fn bundled(&self) -> BundledRequest<'_> {
        BundledRequest { id: self.id, weight: self.weight(), meta: &self.meta, body: &self.body }
    }
}

impl QueuePublisher {
    pub(crate) const fn new(rpc: Rpc, backlog: Backlog) -> Self {
        Self { rpc, backlog }
    }

    pub(crate) const fn backlog(&self) -> &Backlog {
        &self.backlog
    }

    /// Whether a message can be published now.
    pub(crate) fn is_ready(&self) -> bool {
        self.rpc.is_ready()
    }

    /// Takes a share of so many backlog units. 503 `overloaded` when none is left, or when the broker is not ready.
    pub(crate) fn take_share(&self, tenant: TenantId, units: u64) -> Result<Share, Refusal> {
        let share = self.backlog.admit(tenant, units)?;
        self.rpc.check_ready().map_err(|_| OverloadReason::Queue.refuse())?;
        Ok(share)
    }

    /// Publishes a message and waits for the reply. `holds` are kept until it arrives, even after `reply_by`. Calls
    /// `on_confirm` once the message is known to be in the queue, at once after `confirm_wanted`.
    async fn call(
        &self, message: &RequestMessage, holds: Holds, on_confirm: impl FnOnce() + Send,
        confirm_wanted: impl Future<Output = ()> + Send,
    ) -> Result<Vec<u8>, CallError> {
        let on_confirm = || {
            metrics::counter!(EVENTS_ACCEPTED).increment(message.accepted.into());
            on_confirm();
        };
        let request = RpcRequest {
            id: message.id,
            meta: &message.meta,
            traceparent: message.traceparent.as_deref(),
            body: &message.body,
            confirm_within: message.confirm_by.saturating_duration_since(Instant::now()),
            deadline: message.reply_by,
        };
        self.rpc.call(request, holds, on_confirm, confirm_wanted).await
    }

    /// The same in a task of its own, which continues when the caller hangs up.
    async fn call_detached(&self, message: RequestMessage, holds: Holds) -> Result<Vec<u8>, CallError> {
        let publisher = self.clone();
        let call = async move { publisher.call(&message, holds, || (), pending()).await };
        // Without a result the task has panicked; the message may have been published.
        tokio::spawn(call.in_current_span()).await.unwrap_or(Err(CallError::NoReply))
    }
}

/// The refusal of a request that has no result: 503 `overloaded` when nothing was published; `without_reply` when the
/// message was, or may have been, published.
fn refuse(error: CallError, without_reply: Refusal) -> Refusal {
    match error {
        CallError::Unavailable | CallError::Refused => OverloadReason::Queue.refuse(),
        CallError::NoReply => without_reply,
    }
}
