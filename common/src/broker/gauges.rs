//! Gauges of the queues, refreshed in the background, never at a scrape.

use super::connection::Broker;
use super::topology::{Queue, dead_queue_name};
use crate::metrics::{QUEUE_CONSUMERS, QUEUE_MAX_LENGTH, QUEUE_READY};
use crate::settings::BrokerSettings;
use std::time::Duration;
use tokio::time::interval;

/// How often the queues are asked for.
const LOOK: Duration = Duration::from_secs(3);

/// Keeps the gauges of all queues true for as long as the program lives. Every program does it: those of one kind may
/// all be down, and that is when somebody wants to know how long the queues are. While the broker can't be asked the
/// gauges keep what was last true; `connect_broker_connected` says so.
pub async fn observe_queues(broker: Broker, settings: BrokerSettings) {
    let mut every = interval(LOOK);
    loop {
        every.tick().await;
        for queue in Queue::ALL {
            let dead = dead_queue_name(&settings.prefix, queue);
            observe(&broker, queue.as_str().to_owned(), &broker.queue_name(queue), settings.max_length).await;
            observe(&broker, format!("{}.dead", queue.as_str()), &dead, settings.max_length).await;
        }
    }
}

async fn observe(broker: &Broker, label: String, name: &str, max_length: u32) {
    if let Some(depth) = broker.depth(name).await {
        metrics::gauge!(QUEUE_READY, "queue" => label.clone()).set(depth.ready);
        metrics::gauge!(QUEUE_CONSUMERS, "queue" => label.clone()).set(depth.consumers);
        metrics::gauge!(QUEUE_MAX_LENGTH, "queue" => label).set(max_length);
    }
}
