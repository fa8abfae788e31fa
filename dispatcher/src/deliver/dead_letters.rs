//! Dead letters in the broker, while there is room for them.
//!
//! The truth about a dead delivery is its row. Its message goes to the dead-letter queue as well, for those who look there;
//! when that queue is nearly full the message is forgotten instead: what it can't take would stay in the queue of
//! webhooks and fill that in the end.

use common::broker::{Broker, Queue, Receipt, dead_queue_name};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How often the queue is looked at.
const LOOK: Duration = Duration::from_secs(5);

/// The dead-letter queue of webhooks. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct DeadLetters {
    is_full: Arc<AtomicBool>,
}

impl DeadLetters {
    /// Concludes a message that is not to be tried any more.
    pub(super) async fn take(&self, receipt: Receipt, reason: &'static str) {
        if self.is_full.load(Ordering::Relaxed) {
            receipt.done().await;
        } else {
            receipt.dead(reason).await;
        }
    }

    /// Looks whether the queue, which takes `most` messages, has room, until `shutdown`.
    pub(super) async fn watch(self, broker: Broker, prefix: String, most: u32, shutdown: CancellationToken) {
        let name = dead_queue_name(&prefix, Queue::Webhooks);
        loop {
            if let Some(queue) = broker.depth(&name).await {
                let is_full = queue.ready > most / 10 * 9;
                if self.is_full.swap(is_full, Ordering::Relaxed) != is_full {
                    tracing::warn!(queue = name, is_full, "room for dead letters of webhooks has changed");
                }
            }
            if shutdown.run_until_cancelled(sleep(LOOK)).await.is_none() {
                return;
            }
        }
    }
}
