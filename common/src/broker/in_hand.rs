//! What was taken from the queues and isn't concluded. A broker counts it neither as waiting nor as handled: a program
//! that is alive and stuck looks like one that has nothing to do, unless it says for how long it has held what it holds.

use super::topology::Queue;
use crate::metrics::OLDEST_IN_HAND;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, interval};

/// How often the gauge is brought up to date.
const LOOK: Duration = Duration::from_secs(1);

/// Of the process, as the metric is.
static IN_HAND: InHand = InHand::new();

/// For each queue that is taken from, when what is in hand was taken.
struct InHand {
    queues: Mutex<Queues>,
    next: AtomicU64,
}

type Queues = BTreeMap<&'static str, BTreeSet<Taken>>;

/// When something was taken, and a number that tells it from what was taken in the same instant.
type Taken = (Instant, u64);

/// A message, or a unit of them, unacknowledged until this is dropped; also a delivery that comes without a message.
#[derive(Debug)]
pub struct Held {
    queue: Queue,
    taken: Taken,
}

impl Held {
    /// Taken now.
    pub fn new(queue: Queue) -> Self {
        Self { queue, taken: IN_HAND.take(queue, Instant::now()) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        IN_HAND.conclude(self.queue, self.taken);
    }
}

/// Has the queue's gauge shown from now on.
pub(super) fn show(queue: Queue) {
    IN_HAND.queues().entry(queue.as_str()).or_default();
}

/// Keeps the gauges true for as long as the program lives.
pub(super) async fn observe() {
    let mut every = interval(LOOK);
    loop {
        let now = every.tick().await;
        for (queue, age) in IN_HAND.ages(now) {
            metrics::gauge!(OLDEST_IN_HAND, "queue" => queue).set(age);
        }
    }
}

impl InHand {
    const fn new() -> Self {
        Self { queues: Mutex::new(BTreeMap::new()), next: AtomicU64::new(0) }
    }

    fn take(&self, queue: Queue, now: Instant) -> Taken {
        let taken = (now, self.next.fetch_add(1, Ordering::Relaxed));
        self.queues().entry(queue.as_str()).or_default().insert(taken);
        taken
    }

    fn conclude(&self, queue: Queue, taken: Taken) {
        if let Some(held) = self.queues().get_mut(queue.as_str()) {
            held.remove(&taken);
        }
    }

    fn ages(&self, now: Instant) -> Vec<(&'static str, Duration)> {
        let age = |held: &BTreeSet<Taken>| {
            held.first().map_or(Duration::ZERO, |(taken, _)| now.saturating_duration_since(*taken))
        };
        self.queues().iter().map(|(queue, held)| (*queue, age(held))).collect()
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_counts_until_it_is_concluded() {
        let in_hand = InHand::new();
        let (begin, second) = (Instant::now(), Duration::from_secs(1));
        let oldest = in_hand.take(Queue::Events, begin);
        let twin = in_hand.take(Queue::Events, begin);
        let newer = in_hand.take(Queue::Events, begin + 2 * second);
        let now = begin + 5 * second;
        assert_eq!(in_hand.ages(now), [("events", 5 * second)]);
        in_hand.conclude(Queue::Events, oldest);
        assert_eq!(in_hand.ages(now), [("events", 5 * second)]);
        in_hand.conclude(Queue::Events, twin);
        assert_eq!(in_hand.ages(now), [("events", 3 * second)]);
        in_hand.conclude(Queue::Events, newer);
        assert_eq!(in_hand.ages(now), [("events", Duration::ZERO)]);
    }
}
