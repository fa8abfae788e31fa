//! The dead-letter queue of webhooks in the broker.
//!
//! The row of a dead-lettered delivery is authoritative. Its message is dead-lettered as well, so that operators find it
//! there. When the dead-letter queue is nearly full the message is acknowledged instead: messages that it refuses would stay in the webhooks
//! queue and fill it.

use common::broker::{AckHandle, Broker, Queue, dead_queue_name};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How often the queue's length is read.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// The dead-letter queue of webhooks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadLetterQueue {
    is_full: Arc<AtomicBool>,
}

impl DeadLetterQueue {
    /// Dead-letters a message, or acknowledges it when the dead-letter queue is nearly full.
    pub(super) async fn dead_letter(&self, ack: AckHandle, reason: &'static str) {
        if self.is_full.load(Ordering::Relaxed) {
            ack.acknowledge().await;
        } else {
            ack.dead_letter(reason).await;
        }
    }

    /// Monitors until `shutdown` whether the queue, which takes `most` messages, is nearly full.
    pub(super) async fn watch(self, broker: Broker, prefix: String, most: u32, shutdown: CancellationToken) {
        let name = dead_queue_name(&prefix, Queue::Webhooks);
        loop {
            if let Some(queue) = broker.depth(&name).await {
                let is_full = queue.ready > most / 10 * 9;
                if self.is_full.swap(is_full, Ordering::Relaxed) != is_full {
                    log_change(&name, is_full);
                }
            }
            if shutdown.run_until_cancelled(sleep(POLL_INTERVAL)).await.is_none() {
                return;
            }
        }
    }
}

fn log_change(queue: &str, is_full: bool) {
    if is_full {
        tracing::warn!(
            queue,
            "dead-letter queue is nearly full; acknowledging further dead-lettered messages instead of storing them"
        );
    } else {
        tracing::warn!(queue, "dead-letter queue is no longer nearly full; dead-lettering messages again");
    }
}
