//! Publishes a batch and returns the worker's result. A batch whose caller has hung up is applied exactly once, and a retry
//! reports `duplicate`.

use super::bundles::Publisher;
use super::{QueuePublisher, RequestMessage, refuse};
use crate::admission::Share;
use crate::refusal::Refusal;
use bytes::Bytes;
use common::caller::Caller;
use common::clock;
use common::event::BATCH_MAX;
use common::message::BatchMeta;
use common::metrics::{BATCH_EVENTS, EVENTS_ACCEPTED, register_counter};
use common::trace::RequestContext;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of events of a batch that may share its message.
const SMALL_EVENTS: u16 = 10;

/// A batch whose body is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidBatch {
    /// The number of events.
    pub(crate) events: u16,
    /// Whether nothing is to be written.
    pub(crate) dry_run: bool,
}

/// Publishes batches to the queue of events.
#[derive(Debug)]
pub(crate) struct EventPublisher {
    pub(crate) publisher: Arc<Publisher>,
    publish_within: Duration,
    reply_within: Duration,
}

impl EventPublisher {
    /// `publish_within` limits the wait for the broker's confirm, `reply_within` the whole.
    pub(crate) fn new(queue: QueuePublisher, publish_within: Duration, reply_within: Duration) -> Self {
        register_counter(EVENTS_ACCEPTED, &[]);
        Self { publisher: Publisher::new(queue, BATCH_MAX, publish_within), publish_within, reply_within }
    }

    /// Publishes a batch with its `body` as sent, and returns the worker's result unchanged: JSON of a `BatchResult`.
    ///
    /// 503 `overloaded` when too many batches wait or the broker refuses the message, 503 `processing_timeout` when there is
    /// no result in time.
    pub(crate) async fn submit(
        &self, request_context: RequestContext, caller: &Caller, batch: ValidBatch, body: &Bytes, share: Share,
    ) -> Result<Vec<u8>, Refusal> {
        let ValidBatch { events, dry_run } = batch;
        metrics::histogram!(BATCH_EVENTS).record(events);
        let RequestContext { request_id, context } = request_context;
        let meta = BatchMeta {
            request_id,
            caller: caller.clone(),
            published_at: clock::database_now(),
            events,
            dry_run,
            traceparent: Some(context.to_header()),
        };
        let now = Instant::now();
        let message = RequestMessage {
            id: request_id,
            meta: meta.to_header(),
            traceparent: meta.traceparent,
            body: body.clone(),
            accepted: if dry_run { 0 } else { events },
            confirm_by: now + self.publish_within,
            reply_by: now + self.reply_within,
        };
        let may_wait = !dry_run && events <= SMALL_EVENTS;
        self.publisher.submit(caller, message, share, may_wait).await.map_err(|error| {
            tracing::debug!(%error, "publishing a batch or waiting for its result failed");
            refuse(error, Refusal::ProcessingTimeout)
        })
    }
}
