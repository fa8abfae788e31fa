//! The messages that the ledger publishes: those of next attempts, and of deliveries that go through the queue.

use super::entry::{Entry, FollowUp};
use crate::schedule::Wait;
use bytes::Bytes;
use common::broker::{Broker, Outgoing, PublishError, Publisher, Queue};
use common::clock;
use common::message::DeliveryMeta;
use std::time::Duration;
use tokio::time::Instant;

/// Longest that the broker may take to confirm what is published together.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);
/// The same while there is no connection, which may be about to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long nothing is published after the broker has not confirmed in time: each try would hold up the record.
const LEFT_ALONE: Duration = Duration::from_secs(10);

/// Publishes deliveries' messages.
#[derive(Debug)]
pub(super) struct Messages {
    broker: Broker,
    queue: String,
    retry_queues: Vec<String>,
    to_queue: Publisher,
    to_retry: Publisher,
    /// The broker didn't confirm; until then it is left alone.
    left_alone_until: Option<Instant>,
}

impl Messages {
    pub(super) fn new(broker: &Broker) -> Self {
        Self {
            broker: broker.clone(),
            queue: broker.queue_name(Queue::Webhooks),
            retry_queues: (0..=u8::MAX).map(|level| broker.retry_queue_name(level)).collect(),
            to_queue: Publisher::new(broker.clone(), Queue::Webhooks, "webhooks"),
            to_retry: Publisher::new(broker.clone(), Queue::Webhooks, "webhooks.retry"),
            left_alone_until: None,
        }
    }

    /// Publishes what follows from the entries and comes before their record. Where the broker doesn't confirm, the
    /// delivery waits in the database instead; should the message be in its queue all the same, one of the two repeats
    /// the other's attempt and is recognized by the record.
    pub(super) async fn publish(&mut self, batch: &mut [Entry]) {
        let within = if self.broker.is_connected() { CONFIRM_WITHIN } else { CONNECT_WITHIN };
        let Self { queue, retry_queues, to_queue, to_retry, left_alone_until, .. } = self;
        let (mut queued, mut retried) = (Vec::new(), Vec::new());
        for (at, entry) in batch.iter().enumerate() {
            match entry.follow_up {
                FollowUp::Queue => queued.push((at, message(&entry.meta, &entry.body, queue))),
                FollowUp::Retry(wait) => {
                    retried.push((at, next(entry, &retry_queues[usize::from(wait.level)], wait)));
                }
                FollowUp::None | FollowUp::DeadLetter => {}
            }
        }
        let mut unconfirmed = unconfirmed(to_retry, retried, within, left_alone_until).await;
        unconfirmed.extend(self::unconfirmed(to_queue, queued, within, left_alone_until).await);
        for at in unconfirmed {
            batch[at].park();
        }
    }

    /// Puts a delivery into the queue whose attempt is over; whether the broker has confirmed it.
    pub(super) async fn requeue(&mut self, meta: &DeliveryMeta, body: &Bytes) -> bool {
        let messages = vec![(0, message(meta, body, &self.queue))];
        unconfirmed(&mut self.to_queue, messages, CONFIRM_WITHIN, &mut self.left_alone_until).await.is_empty()
    }
}

/// Publishes messages, given with their places. Gives the places of those that are not confirmed.
async fn unconfirmed(
    publisher: &mut Publisher,
    messages: Vec<(usize, Outgoing<'_>)>,
    within: Duration,
    left_alone_until: &mut Option<Instant>,
) -> Vec<usize> {
    if messages.is_empty() {
        return Vec::new();
    }
    let (places, messages): (Vec<usize>, Vec<Outgoing<'_>>) = messages.into_iter().unzip();
    if left_alone_until.is_some_and(|until| Instant::now() < until) {
        return places;
    }
    let results = publisher.publish(&messages, within).await;
    let is_away = results.contains(&Err(PublishError::Unavailable));
    *left_alone_until = is_away.then(|| Instant::now() + LEFT_ALONE);
    places.into_iter().zip(results).filter(|(_, result)| result.is_err()).map(|(place, _)| place).collect()
}

/// A delivery's message for the queue of webhooks.
fn message<'a>(meta: &DeliveryMeta, body: &'a Bytes, queue: &'a str) -> Outgoing<'a> {
    let traceparent = meta.traceparent.clone();
    Outgoing { queue, meta: meta.to_header(), traceparent, body, waits: None }
}

/// The message of the next attempt.
fn next<'a>(entry: &'a Entry, queue: &'a str, wait: Wait) -> Outgoing<'a> {
    let meta = DeliveryMeta {
        attempt: entry.meta.attempt.saturating_add(1),
        published_at: clock::now(),
        ..entry.meta.clone()
    };
    Outgoing { waits: Some(wait.length), ..message(&meta, &entry.body, queue) }
}
