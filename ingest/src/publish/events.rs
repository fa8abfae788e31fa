//! Publishes a batch and returns the worker's result. A batch whose caller has hung up is applied exactly once, and a retry
//! reports `duplicate`.
//!
//! A small batch may share its message with others of the same caller (see [`crate::publish::bundles`]). A large one is published
//! by itself, at once, from its unchanged bytes.

use super::batch::{ValidBatch, batch_message, count_accepted, single_meta};
use super::bundles::{Bundles, SmallRequest};
use super::{QueuePublisher, refuse};
use crate::admission::Share;
use crate::refusal::Refusal;
use common::caller::Caller;
use common::metrics::{BATCH_EVENTS, BUNDLE_REQUESTS, EVENTS_ACCEPTED, register_counter};
use common::trace::RequestContext;
use std::time::Duration;
use tokio::time::Instant;

/// Publishes batches to the queue of events; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct EventPublisher {
    pub(crate) queue: QueuePublisher,
    bundles: Bundles,
    publish_within: Duration,
    reply_within: Duration,
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
