//! Gauges of the queues, refreshed in the background, never at a scrape.

use super::connection::{Broker, QueueDepth};
use super::in_hand;
use super::topology::{Queue, dead_queue_name, retry_label};
use crate::metrics::{QUEUE_CONSUMERS, QUEUE_DELAYED, QUEUE_MAX_LENGTH, QUEUE_READY};
use crate::settings::BrokerSettings;
use std::time::Duration;
use tokio::time::interval;

/// How often the queues are asked for.
const LOOK: Duration = Duration::from_secs(3);

/// Keeps the gauges of all queues, and of what was taken from them, true for as long as the program lives. Every program
/// does it: those of one kind may all be down, and that is when somebody wants to know how long the queues are. While the
/// broker can't be asked the gauges keep what was last true; `connect_broker_connected` says so.
pub async fn observe_queues(broker: Broker, settings: BrokerSettings) {
    tokio::join!(observe_depths(broker, settings), in_hand::observe());
}

async fn observe_depths(broker: Broker, settings: BrokerSettings) {
    let mut every = interval(LOOK);
    loop {
        every.tick().await;
        for queue in Queue::ALL {
            let dead = dead_queue_name(&settings.prefix, queue);
            let found = broker.look(&broker.queue_name(queue)).await;
            show(queue.as_str().to_owned(), found, settings.max_length);
            show(format!("{}.dead", queue.as_str()), broker.look(&dead).await, settings.max_length);
        }
        // By the program that declares them: nobody else knows how many there are.
        for level in 1..=broker.retry_levels() {
            let found = broker.look(&broker.retry_queue_name(level)).await;
            show_delayed(retry_label(level), found, settings.max_length);
        }
    }
}

/// What the broker said of a queue: nothing, or that there is none, or what is in it.
type Found = Option<Option<QueueDepth>>;

fn show(label: String, found: Found, max_length: u32) {
    let Some(found) = found else { return };
    // One that was deleted holds nothing, and nobody consumes it.
    let depth = found.unwrap_or(QueueDepth { ready: 0, consumers: 0 });
    metrics::gauge!(QUEUE_READY, "queue" => label.clone()).set(depth.ready);
    metrics::gauge!(QUEUE_CONSUMERS, "queue" => label.clone()).set(depth.consumers);
    metrics::gauge!(QUEUE_MAX_LENGTH, "queue" => label).set(max_length);
}

fn show_delayed(label: String, found: Found, max_length: u32) {
    let Some(found) = found else { return };
    metrics::gauge!(QUEUE_DELAYED, "queue" => label.clone()).set(found.map_or(0, |depth| depth.ready));
    metrics::gauge!(QUEUE_MAX_LENGTH, "queue" => label).set(max_length);
}
