//! The batch of a request, and the message that carries it.

use super::RequestMessage;
use bytes::Bytes;
use common::caller::Caller;
use common::clock;
use common::message::BatchMeta;
use common::metrics::EVENTS_ACCEPTED;
use common::trace::RequestContext;
use tokio::time::Instant;

/// Maximum number of events of a batch that may share its message.
const SMALL_EVENTS: u16 = 10;
/// Maximum number of bytes of such a batch.
const SMALL_BYTES: usize = 32 * 1024;

/// The body of a valid batch.
#[derive(Clone, Debug)]
pub(crate) struct ValidBatch {
    /// As it was sent.
    pub(crate) body: Bytes,
    /// The text between the brackets of `events`.
    pub(crate) text: Bytes,
    /// The number of events.
    pub(crate) events: u16,
    /// Whether nothing is to be written.
    pub(crate) dry_run: bool,
}

impl ValidBatch {
    /// Whether it may share a message. A dry run may not, so that the message says of all of its events that nothing is written.
    pub(super) fn is_small(&self) -> bool {
        !self.dry_run && self.events <= SMALL_EVENTS && self.body.len() <= SMALL_BYTES
    }
}

/// Counts the events of a message that the broker has confirmed.
pub(super) fn count_accepted(events: u16) {
    metrics::counter!(EVENTS_ACCEPTED).increment(u64::from(events));
}

/// The metadata of a message with the batch of a single request.
pub(super) fn single_meta(request_context: RequestContext, caller: &Caller, events: u16) -> BatchMeta {
    BatchMeta {
        request_id: request_context.request_id,
        caller: caller.clone(),
        published_at: clock::database_now(),
        events,
        dry_run: false,
        traceparent: Some(request_context.context.to_header()),
        parts: Vec::new(),
    }
}

pub(super) fn batch_message(meta: &BatchMeta, body: Bytes, confirm_by: Instant, reply_by: Instant) -> RequestMessage {
    RequestMessage {
        id: meta.request_id,
        meta: meta.to_header(),
        traceparent: meta.traceparent.clone(),
        body,
        confirm_by,
        reply_by,
    }
}
