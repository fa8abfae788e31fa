//! Publishes the messages of next attempts, and of deliveries that go through the queue.

use super::delivery_update::{DeliveryUpdate, FollowUp};
use crate::schedule::Wait;
use bytes::Bytes;
use common::broker::{Broker, OutgoingMessage, PublishError, Publisher, Queue};
use common::clock;
use common::message::DeliveryMeta;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum time that the broker may take to confirm a batch of messages.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);
/// The same while the broker is not connected: a reconnect may be under way.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// How long nothing is published after a missing confirm, because each attempt to publish delays the recorder.
const BACKOFF: Duration = Duration::from_secs(10);

/// Publishes messages of deliveries, and pauses while the broker does not confirm.
#[derive(Debug)]
pub(super) struct DeliveryPublisher {
    broker: Broker,
    queue: String,
    retry_queues: Vec<String>,
    to_queue: Publisher,
    to_retry: Publisher,
    /// Set after a missing confirm: nothing is published before this time.
    backoff_until: Option<Instant>,
}

impl DeliveryPublisher {
    pub(super) fn new(broker: &Broker) -> Self {
        Self {
            broker: broker.clone(),
            queue: broker.queue_name(Queue::Webhooks),
            retry_queues: (0..=u8::MAX).map(|level| broker.retry_queue_name(level)).collect(),
            to_queue: Publisher::new(broker.clone(), Queue::Webhooks, "webhooks"),
            to_retry: Publisher::new(broker.clone(), Queue::Webhooks, "webhooks.retry"),
            backoff_until: None,
        }
    }

    /// Publishes the messages that must precede the record of the updates. A delivery whose message is not confirmed is parked
    /// instead. If that message is in the queue nevertheless, the record identifies the duplicate attempt.
    pub(super) async fn publish(&mut self, batch: &mut [DeliveryUpdate]) {
        let within = if self.broker.is_connected() { CONFIRM_WITHIN } else { CONNECT_WITHIN };
        let Self { queue, retry_queues, to_queue, to_retry, backoff_until, .. } = self;
        let (mut queued, mut retried) = (Vec::new(), Vec::new());
        for (at, update) in batch.iter().enumerate() {
            match update.follow_up {
                FollowUp::Queue => queued.push((at, message(&update.meta, &update.body, queue))),
                FollowUp::Retry(wait) => {
                    retried.push((at, next(update, &retry_queues[usize::from(wait.level)], wait)));
                }
                FollowUp::None | FollowUp::DeadLetter => {}
            }
        }
        let mut unconfirmed = unconfirmed(to_retry, retried, within, backoff_until).await;
        unconfirmed.extend(self::unconfirmed(to_queue, queued, within, backoff_until).await);
        for at in unconfirmed {
            batch[at].park();
        }
    }

    /// Publishes a message for a delivery that has none, after its attempt: its consumer dead-letters it, or attempts the
    /// delivery again if the attempt is not recorded. Returns whether the broker confirmed it.
    pub(super) async fn publish_message(&mut self, meta: &DeliveryMeta, body: &Bytes) -> bool {
        let messages = vec![(0, message(meta, body, &self.queue))];
        unconfirmed(&mut self.to_queue, messages, CONFIRM_WITHIN, &mut self.backoff_until).await.is_empty()
    }
}

/// Publishes messages, given with their indexes. Returns the indexes of those that are not confirmed.
async fn unconfirmed(
    publisher: &mut Publisher,
    messages: Vec<(usize, OutgoingMessage<'_>)>,
    within: Duration,
    backoff_until: &mut Option<Instant>,
) -> Vec<usize> {
    if messages.is_empty() {
        return Vec::new();
    }
    let (places, messages): (Vec<usize>, Vec<OutgoingMessage<'_>>) = messages.into_iter().unzip();
    if backoff_until.is_some_and(|until| Instant::now() < until) {
        return places;
    }
    let results = publisher.publish(&messages, within).await;
    let is_unavailable = results.contains(&Err(PublishError::Unavailable));
    *backoff_until = is_unavailable.then(|| Instant::now() + BACKOFF);
    places.into_iter().zip(results).filter(|(_, result)| result.is_err()).map(|(place, _)| place).collect()
}

/// A delivery's message for the queue of webhooks.
fn message<'a>(meta: &DeliveryMeta, body: &'a Bytes, queue: &'a str) -> OutgoingMessage<'a> {
    let traceparent = meta.traceparent.clone();
    OutgoingMessage { queue, meta: meta.to_header(), traceparent, body, ttl: None }
}

/// The message of the next attempt.
fn next<'a>(update: &'a DeliveryUpdate, queue: &'a str, wait: Wait) -> OutgoingMessage<'a> {
    let meta = DeliveryMeta {
        attempt: update.meta.attempt.saturating_add(1),
        published_at: clock::now(),
        ..update.meta.clone()
    };
    OutgoingMessage { ttl: Some(wait.length), ..message(&meta, &update.body, queue) }
}
