//! Publishing with confirms: a published message is on the broker's disk.

use super::confirm_channel::{ConfirmChannel, is_in_queue};
use super::connection::{Broker, Link};
use super::dead_letter_scan::requeue_properties;
use super::mac::{Purpose, SignedFields};
use super::message::Message;
use super::rpc::{PERSISTENT, headers};
use super::topology::Queue;
use crate::metrics::{self as names, PUBLISHES};
use futures_util::future::join_all;
use lapin::BasicProperties;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

/// A message for a queue.
#[derive(Clone, Debug)]
pub struct OutgoingMessage<'a> {
    /// The queue's full name.
    pub queue: &'a str,
    /// JSON for the consumer.
    pub meta: String,
    /// The trace context, as a W3C `traceparent`.
    pub traceparent: Option<String>,
    /// The body, which the MAC covers.
    pub body: &'a [u8],
}

/// The queue's full name, the body, and the properties with the MAC.
type SignedMessage<'a> = (&'a str, &'a [u8], BasicProperties);

/// Why a message is not known to be in its queue. It may be there nevertheless, unless it was refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PublishError {
    /// No connection, or the broker blocks publishers, or it did not confirm in time.
    #[error("the broker cannot be reached")]
    Unavailable,
    /// The queue is full or does not exist: the message is not in it.
    #[error("the queue refused the message")]
    Refused,
}

/// Publishes on a channel of its own.
#[derive(Debug)]
pub struct Publisher {
    broker: Broker,
    /// What its messages are signed for.
    purpose: Purpose,
    label: &'static str,
    channel: Option<(ConfirmChannel, Arc<Link>)>,
}

impl Publisher {
    /// Publishes messages that will be consumed from `queue` on `broker`'s connection; `label` names the queue, or the kind
    /// of queue, in the metrics.
    pub fn new(broker: Broker, queue: Queue, label: &'static str) -> Self {
        for result in [Ok(()), Err(PublishError::Unavailable), Err(PublishError::Refused)] {
            names::register_counter(PUBLISHES, &[("queue", label), ("outcome", outcome(&result))]);
        }
        Self { broker, purpose: Purpose::Message(queue), label, channel: None }
    }

    /// Publishes the messages and waits for the broker's confirms for at most `within`. Returns one result for each, in order.
    pub async fn publish(
        &mut self, messages: &[OutgoingMessage<'_>], within: Duration,
    ) -> Vec<Result<(), PublishError>> {
        let signed: Vec<_> =
            messages.iter().map(|message| (message.queue, message.body, self.properties(message))).collect();
        self.publish_all(&signed, within).await
    }

    /// Publishes a message that was consumed to the queue of that full name, with the MAC that it has. Nobody is replied to.
    pub async fn publish_again(
        &mut self, queue: &str, message: &Message, within: Duration,
    ) -> Result<(), PublishError> {
        let published = self
            .publish_all(&[(queue, message.body.as_slice(), requeue_properties(&message.properties))], within)
            .await;
        published.into_iter().collect()
    }

    async fn publish_all(&mut self, messages: &[SignedMessage<'_>], within: Duration) -> Vec<Result<(), PublishError>> {
        let results = self.try_publish(messages, within).await;
        for outcome in results.iter().map(outcome) {
            metrics::counter!(PUBLISHES, "queue" => self.label, "outcome" => outcome).increment(1);
        }
        results
    }

    async fn try_publish(&mut self, messages: &[SignedMessage<'_>], within: Duration) -> Vec<Result<(), PublishError>> {
        if messages.is_empty() {
            return Vec::new();
        }
        let deadline = Instant::now() + within;
        let mut results = vec![Err(PublishError::Unavailable); messages.len()];
        let Ok(Some(channel)) = timeout_at(deadline, self.channel()).await else {
            self.channel = None;
            return results;
        };
        // Everything is sent before the first confirm is awaited, so that the broker can confirm several at once.
        let mut sent = Vec::with_capacity(messages.len());
        for (queue, body, properties) in messages {
            let sending = channel.publish(queue, body, properties.clone());
            match timeout_at(deadline, sending).await {
                Ok(Ok(confirm)) => sent.push(confirm),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        let confirms = sent.into_iter().map(|confirm| timeout_at(deadline, confirm));
        for (result, confirm) in results.iter_mut().zip(join_all(confirms).await) {
            *result = match confirm {
                Ok(Ok(confirmation)) if is_in_queue(&confirmation) => Ok(()),
                Ok(Ok(_)) => Err(PublishError::Refused),
                Ok(Err(_)) | Err(_) => Err(PublishError::Unavailable),
            };
        }
        if results.contains(&Err(PublishError::Unavailable)) {
            self.channel = None;
        }
        results
    }

    async fn channel(&mut self) -> Option<ConfirmChannel> {
        let is_usable = |channel: &ConfirmChannel, link: &Link| {
            channel.channel().status().connected() && !link.connection.status().blocked()
        };
        if let Some((channel, link)) = &self.channel
            && is_usable(channel, link)
        {
            return Some(channel.clone());
        }
        let link = self.broker.link().await?;
        let channel = ConfirmChannel::open(&link.connection).await.ok()?;
        let usable = is_usable(&channel, &link);
        self.channel = Some((channel.clone(), link));
        usable.then_some(channel)
    }

    fn properties(&self, message: &OutgoingMessage<'_>) -> BasicProperties {
        let meta = Some(message.meta.as_bytes());
        let covered = SignedFields { message_id: None, correlation_id: None, meta, body: message.body };
        let mac = self.broker.keys().sign(self.purpose, covered);
        BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_headers(headers(&message.meta, message.traceparent.as_deref(), mac))
    }
}

const fn outcome(result: &Result<(), PublishError>) -> &'static str {
    match result {
        Ok(()) => "confirmed",
        Err(PublishError::Unavailable) => "unavailable",
        Err(PublishError::Refused) => "refused",
    }
}
