//! Publishes a batch and returns the worker's result. A batch whose caller has hung up is applied exactly once, and a retry
//! reports `duplicate`.
//!
//! A small batch may share its message with others of the same caller (see [`crate::publish::bundles`]). A large one is published
//! by itself, at once, from its unchanged bytes.

use super::bundles::{Bundles, SmallRequest};
use super::{QueuePublisher, RequestMessage, refuse};
use crate::admission::Share;
use crate::refusal::Refusal;
use bytes::Bytes;
use common::caller::Caller;
use common::clock;
use common::message::BatchMeta;
use common::metrics::{BATCH_EVENTS, BUNDLE_REQUESTS, EVENTS_ACCEPTED, register_counter};
use common::trace::RequestContext;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of events of a batch that may share its message.
const SMALL_EVENTS: u16 = 10;
/// Maximum number of bytes of such a batch.
const SMALL_BYTES: usize = 32 * 1024;

/// Publishes batches to the queue of events; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EventPublisher {
    pub(crate) queue: QueuePublisher,
    bundles: Bundles,
    publish_within: Duration,
    reply_within: Duration,
}

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
    fn is_small(&self) -> bool {
        !self.dry_run && self.events <= SMALL_EVENTS && self.body.len() <= SMALL_BYTES
    }
}

impl EventPublisher {
    /// `publish_within` limits the wait for the broker's confirm, `reply_within` the whole.
    pub(crate) fn new(queue: QueuePublisher, publish_within: Duration, reply_within: Duration) -> Self {
        register_counter(EVENTS_ACCEPTED, &[]);
        let bundles = Bundles::new(queue.clone());
        Self { queue, bundles, publish_within, reply_within }
    }

    /// Publishes a batch and returns the worker's result unchanged: JSON of a `BatchResult`.
    ///
    /// 503 `overloaded` when too many batches wait or the broker refuses the message, 503 `processing_timeout` when there is
    /// no result in time.
    pub(crate) async fn submit(
        &self, request_context: RequestContext, caller: &Caller, batch: ValidBatch, share: Share,
    ) -> Result<Vec<u8>, Refusal> {
        metrics::histogram!(BATCH_EVENTS).record(batch.events);
        let now = Instant::now();
        let (confirm_by, reply_by) = (now + self.publish_within, now + self.reply_within);
        let result = if batch.is_small() {
            let share = Some(share);
            self.bundles.submit(caller, SmallRequest { request_context, batch, confirm_by, reply_by, share }).await
        } else {
            metrics::histogram!(BUNDLE_REQUESTS).record(1);
            let mut meta = single_meta(request_context, caller, batch.events);
            meta.dry_run = batch.dry_run;
            let message = batch_message(&meta, batch.body, confirm_by, reply_by);
            let count = move || {
                if !batch.dry_run {
                    count_accepted(batch.events);
                }
            };
            self.queue.call_detached(message, vec![Box::new(share)], count).await
        };
        result.map_err(|error| {
            tracing::debug!(%error, "publishing a batch or waiting for its result failed");
            refuse(error, Refusal::ProcessingTimeout)
        })
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
