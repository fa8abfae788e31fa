//! Unacknowledged messages. The broker counts them neither as ready nor as handled, so a stuck program would look like an
//! idle one. The gauge shows for how long the oldest has been unacknowledged.

use super::topology::Queue;
use crate::metrics::OLDEST_UNACKNOWLEDGED;
use crate::periodic::ticks;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// How often the gauge is set.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// One for the process, as the metric is.
static UNACKNOWLEDGED: UnacknowledgedMessages = UnacknowledgedMessages::new();

/// For each consumed queue, when its unacknowledged messages were received.
struct UnacknowledgedMessages {
    queues: Mutex<Queues>,
    next: AtomicU64,
}

type Queues = BTreeMap<&'static str, BTreeSet<ReceivedAt>>;

/// When a message was received, and a number that makes it unique.
type ReceivedAt = (Instant, u64);

/// Counts a message or a unit of messages as unacknowledged until it is dropped.
#[derive(Debug)]
pub struct UnacknowledgedGuard {
    queue: Queue,
    received_at: ReceivedAt,
}

impl UnacknowledgedGuard {
    /// Starts to count a message of `queue` that was received now.
    pub(super) fn new(queue: Queue) -> Self {
        Self { queue, received_at: UNACKNOWLEDGED.add(queue, Instant::now()) }
    }
}

impl Drop for UnacknowledgedGuard {
    fn drop(&mut self) {
        UNACKNOWLEDGED.remove(self.queue, self.received_at);
    }
}

/// Exports the queue's gauge from now on.
pub(super) fn register(queue: Queue) {
    UNACKNOWLEDGED.queues.lock().entry(queue.as_str()).or_default();
}

/// Updates the gauges for as long as the program runs.
pub(super) async fn observe() {
    let mut ticks = ticks(REFRESH_INTERVAL);
    loop {
        ticks.tick().await;
        for (queue, age) in UNACKNOWLEDGED.ages(Instant::now()) {
            metrics::gauge!(OLDEST_UNACKNOWLEDGED, "queue" => queue).set(age);
        }
    }
}

impl UnacknowledgedMessages {
    const fn new() -> Self {
        Self { queues: Mutex::new(BTreeMap::new()), next: AtomicU64::new(0) }
    }

    fn add(&self, queue: Queue, now: Instant) -> ReceivedAt {
        let received_at = (now, self.next.fetch_add(1, Ordering::Relaxed));
        self.queues.lock().entry(queue.as_str()).or_default().insert(received_at);
        received_at
    }

    fn remove(&self, queue: Queue, received_at: ReceivedAt) {
        if let Some(received) = self.queues.lock().get_mut(queue.as_str()) {
            received.remove(&received_at);
        }
    }

    fn ages(&self, now: Instant) -> Vec<(&'static str, Duration)> {
        let age = |received: &BTreeSet<ReceivedAt>| {
            received.first().map_or(Duration::ZERO, |(received_at, _)| now.saturating_duration_since(*received_at))
        };
        self.queues.lock().iter().map(|(queue, received)| (*queue, age(received))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_counts_until_it_is_acknowledged() {
        let unacknowledged = UnacknowledgedMessages::new();
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let oldest = unacknowledged.add(Queue::Events, begin);
        let twin = unacknowledged.add(Queue::Events, begin);
        let newer = unacknowledged.add(Queue::Events, begin + 2 * second);
        let now = begin + 5 * second;
        assert_eq!(unacknowledged.ages(now), [("events", 5 * second)]);
        unacknowledged.remove(Queue::Events, oldest);
        assert_eq!(unacknowledged.ages(now), [("events", 5 * second)]);
        unacknowledged.remove(Queue::Events, twin);
        assert_eq!(unacknowledged.ages(now), [("events", 3 * second)]);
        unacknowledged.remove(Queue::Events, newer);
        assert_eq!(unacknowledged.ages(now), [("events", Duration::ZERO)]);
    }
}
