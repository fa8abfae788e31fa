//! Publishing with confirms: what is said to be published is on the broker's disk.

use super::connection::{Broker, Link};
use super::mac::{Covered, Purpose};
use super::rpc::{PERSISTENT, headers};
use super::topology::Queue;
use crate::metrics::{self as names, PUBLISHES};
use futures_util::future::join_all;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{BasicProperties, Channel, Confirmation, PublisherConfirm};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

/// A message for a queue.
#[derive(Clone, Debug)]
pub struct Outgoing<'a> {
    /// The queue's full name.
    pub queue: &'a str,
    /// JSON for the consumer.
    pub meta: String,
    /// The header that other tools see, too: the place in a trace.
    pub traceparent: Option<String>,
    /// The message.
    pub body: &'a [u8],
    /// How long it stays in the queue before it moves on to where the queue forwards to; `None` until it is consumed.
    pub waits: Option<Duration>,
}

/// Why a message isn't known to be in its queue. It may be there all the same, unless it was refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum PublishError {
    /// No connection, or the broker blocks publishers, or it didn't confirm in time.
    #[error("the broker can't be reached")]
    Unavailable,
    /// The queue is full or gone: the message isn't there.
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
    channel: Option<(Channel, Arc<Link>)>,
}

impl Publisher {
    /// Publishes on `broker`'s connection what will be consumed from `queue`; `label` is the queue, or the kind of queue, in
    /// the metrics.
    pub fn new(broker: Broker, queue: Queue, label: &'static str) -> Self {
        for result in [Ok(()), Err(PublishError::Unavailable), Err(PublishError::Refused)] {
            names::show(PUBLISHES, &[("queue", label), ("outcome", outcome(&result))]);
        }
        Self { broker, purpose: Purpose::Message(queue), label, channel: None }
    }

    /// Publishes all and waits for the broker's confirms, for `within` at most. One result for each, in their order.
    pub async fn publish(
        &mut self,
        messages: &[Outgoing<'_>],
        within: Duration,
    ) -> Vec<Result<(), PublishError>> {
        let results = self.try_publish(messages, within).await;
        for outcome in results.iter().map(outcome) {
            metrics::counter!(PUBLISHES, "queue" => self.label, "outcome" => outcome).increment(1);
        }
        results
    }

    async fn try_publish(
        &mut self,
        messages: &[Outgoing<'_>],
        within: Duration,
    ) -> Vec<Result<(), PublishError>> {
        if messages.is_empty() {
            return Vec::new();
        }
        let deadline = Instant::now() + within;
        let mut results = vec![Err(PublishError::Unavailable); messages.len()];
        let Ok(Some(channel)) = timeout_at(deadline, self.channel()).await else {
            self.channel = None;
            return results;
        };
        // First all that can be sent, so that the confirms come together.
        let mut sent = Vec::with_capacity(messages.len());
        for message in messages {
            match timeout_at(deadline, self.send(&channel, message)).await {
                Ok(Ok(confirm)) => sent.push(confirm),
                Ok(Err(_)) | Err(_) => break,
            }
        }
        let confirms = sent.into_iter().map(|confirm| timeout_at(deadline, confirm));
        for (result, confirm) in results.iter_mut().zip(join_all(confirms).await) {
            *result = match confirm {
                Ok(Ok(Confirmation::Ack(None))) => Ok(()),
                Ok(Ok(Confirmation::Ack(Some(_)) | Confirmation::Nack(_) | Confirmation::NotRequested)) => {
                    Err(PublishError::Refused)
                }
                Ok(Err(_)) | Err(_) => Err(PublishError::Unavailable),
            };
        }
        if results.contains(&Err(PublishError::Unavailable)) {
            self.channel = None;
        }
        results
    }

    async fn channel(&mut self) -> Option<Channel> {
        let is_usable = |channel: &Channel, link: &Link| {
            channel.status().connected() && !link.connection.status().blocked()
        };
        if let Some((channel, link)) = &self.channel
            && is_usable(channel, link)
        {
            return Some(channel.clone());
        }
        let link = self.broker.link().await?;
        let channel = link.connection.create_channel().await.ok()?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.ok()?;
        let usable = is_usable(&channel, &link);
        self.channel = Some((channel.clone(), link));
        usable.then_some(channel)
    }

    async fn send(&self, channel: &Channel, message: &Outgoing<'_>) -> lapin::Result<PublisherConfirm> {
        // Mandatory: a message for a queue that is gone comes back instead of vanishing.
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let meta = Some(message.meta.as_bytes());
        let covered = Covered { message_id: None, correlation_id: None, meta, body: message.body };
        let mac = self.broker.keys().sign(self.purpose, covered);
        let mut properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_content_type("application/json".into())
            .with_headers(headers(&message.meta, message.traceparent.as_deref(), mac));
        if let Some(waits) = message.waits {
            properties = properties.with_expiration(waits.as_millis().to_string().into());
        }
        channel.basic_publish("".into(), message.queue.into(), options, message.body, properties).await
    }
}

const fn outcome(result: &Result<(), PublishError>) -> &'static str {
    match result {
        Ok(()) => "confirmed",
        Err(PublishError::Unavailable) => "unavailable",
        Err(PublishError::Refused) => "refused",
    }
}
