//! Gauges of the queues, refreshed in the background, never at a scrape.

use super::connection::{Broker, QueueDepth};
use super::topology::{Queue, dead_queue_name};
use super::unacknowledged;
use crate::activity::{self, QueueObservation};
use crate::clock;
use crate::metrics::{QUEUE_CONSUMERS, QUEUE_MAX_LENGTH, QUEUE_READY};
use crate::periodic::ticks;
use crate::settings::BrokerSettings;
use chrono::{DateTime, Utc};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// How often the queues' lengths are read.
const POLL_INTERVAL: Duration = Duration::from_secs(3);

/// How often the connection is polled until it is first established.
const CONNECTED_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Advisor actions that wait in the database. They count as messages that wait in their queue.
static STORED_ACTIONS: AtomicU32 = AtomicU32::new(0);

/// Sets how many advisor actions were taken from their queue and wait in the database.
pub fn set_stored_actions(count: u32) {
    STORED_ACTIONS.store(count, Ordering::Relaxed);
}

/// Updates the gauges of all queues and of unacknowledged messages for as long as the program runs. Every program does so,
/// because all programs of one kind may be down when the lengths of the queues matter most. While the broker cannot be
/// reached the gauges keep their last values, and `connect_broker_connected` is 0.
pub async fn observe_queues(broker: Broker, settings: BrokerSettings) {
    tokio::join!(observe_depths(broker, settings), unacknowledged::observe());
}

async fn observe_depths(broker: Broker, settings: BrokerSettings) {
    // The first look is made as soon as there is a connection.
    while !broker.is_connected() {
        sleep(CONNECTED_POLL_INTERVAL).await;
    }
    let mut ticks = ticks(POLL_INTERVAL);
    loop {
        ticks.tick().await;
        for queue in Queue::ALL {
            let dead = dead_queue_name(&settings.prefix, queue);
            // Taken before the request: a message that the broker does not count was published after this time.
            let at = clock::now();
            let found = if Queue::CONSUMED.contains(&queue) {
                let found = broker.inspect(&broker.queue_name(queue)).await;
                let stored = if queue == Queue::Crm { STORED_ACTIONS.load(Ordering::Relaxed) } else { 0 };
                let ready = |depth: QueueDepth| depth.ready.saturating_add(stored);
                let with_stored = found.map(|found| found.map(|depth| QueueDepth { ready: ready(depth), ..depth }));
                set_gauges(queue.as_str().to_owned(), with_stored, settings.max_length);
                found
            } else {
                Some(Some(QueueDepth { ready: 0, consumers: 0 }))
            };
            let dead = broker.inspect(&dead).await;
            set_gauges(format!("{}.dead", queue.as_str()), dead, settings.max_length);
            note(queue, at, found, dead);
        }
    }
}

/// What the broker said of a queue: `None` without a response, `Some(None)` when the queue does not exist.
type QueueLookUp = Option<Option<QueueDepth>>;

/// Notes the state of a queue for the overview of the settings area, if the broker has replied and the queue exists.
fn note(queue: Queue, at: DateTime<Utc>, found: QueueLookUp, dead: QueueLookUp) {
    if let Some(Some(QueueDepth { ready, consumers })) = found {
        let dead = dead.flatten().map_or(0, |depth| depth.ready);
        activity::note_queue(queue, QueueObservation { at, ready, consumers, dead });
    }
}

fn set_gauges(label: String, found: QueueLookUp, max_length: u32) {
    let Some(found) = found else { return };
    // A deleted queue counts as empty and without consumers.
    let depth = found.unwrap_or(QueueDepth { ready: 0, consumers: 0 });
    metrics::gauge!(QUEUE_READY, "queue" => label.clone()).set(depth.ready);
    metrics::gauge!(QUEUE_CONSUMERS, "queue" => label.clone()).set(depth.consumers);
    metrics::gauge!(QUEUE_MAX_LENGTH, "queue" => label).set(max_length);
}
