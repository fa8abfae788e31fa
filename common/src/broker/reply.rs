//! Replies to requests, on a connection of their own.
//!
//! A broker that runs out of memory or disk blocks connections that publish, acknowledgements included. Consuming
//! connections publish nothing, so that queues can still be processed then.

use super::connection::Broker;
use super::mac::{MAC_HEADER, MessageKeys, Purpose, SignedFields};
use super::time_limit::in_time;
use super::topology::Queue;
use futures_util::future::join_all;
use lapin::options::BasicPublishOptions;
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, PublisherConfirm};
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time that sending a reply may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Reply<'r> {
    /// The request's `reply_to`.
    pub(super) to: ShortString,
    /// The request's correlation id.
    pub(super) id: Option<ShortString>,
    /// The body, which the MAC covers.
    pub(super) body: &'r [u8],
}

/// Sends replies, each at most once: the result is in the database, and a caller without a reply retries its request.
#[derive(Debug)]
pub(super) struct Replies {
    broker: Broker,
    /// What they are signed for.
    purpose: Purpose,
    channel: Option<Channel>,
}

impl Replies {
    /// Replies to messages of `queue`, which go out on `broker`'s connection.
    pub(super) const fn new(broker: Broker, queue: Queue) -> Self {
        Self { broker, purpose: Purpose::Reply(queue), channel: None }
    }

    /// Sends replies to the broker concurrently. Returns for each whether it was sent within the timeout.
    pub(super) async fn send_all(&mut self, replies: &[Reply<'_>]) -> Vec<bool> {
        if replies.is_empty() {
            return Vec::new();
        }
        let (keys, purpose) = (self.broker.keys().clone(), self.purpose);
        let Some(channel) = self.channel().await else {
            self.channel = None;
            return vec![false; replies.len()];
        };
        let handed_over = replies.iter().map(|reply| timeout(SEND_TIMEOUT, publish(channel, (&keys, purpose), reply)));
        let were_sent: Vec<bool> =
            join_all(handed_over).await.into_iter().map(|sent| matches!(sent, Ok(Ok(_)))).collect();
        if were_sent.contains(&false) {
            self.channel = None;
        }
        were_sent
    }

    /// The open channel. Opening one may take longer than sending: a reply that is not sent is never sent.
    async fn channel(&mut self) -> Option<&Channel> {
        let link = timeout(SEND_TIMEOUT, self.broker.link()).await.ok()??;
        if link.connection.status().blocked() {
            return None;
        }
        if !self.channel.as_ref().is_some_and(|channel| channel.status().connected()) {
            self.channel = Some(in_time(link.connection.create_channel()).await.ok()?);
        }
        self.channel.as_ref()
    }
}

async fn publish(
    channel: &Channel, (keys, purpose): (&MessageKeys, Purpose), reply: &Reply<'_>,
) -> lapin::Result<PublisherConfirm> {
    let correlation_id = reply.id.as_ref().map(ShortString::as_str);
    let covered = SignedFields { message_id: None, correlation_id, meta: None, body: reply.body };
    let mut headers = FieldTable::default();
    headers.insert(MAC_HEADER.into(), keys.sign(purpose, covered));
    let mut properties = BasicProperties::default().with_headers(headers);
    if let Some(id) = reply.id.clone() {
        properties = properties.with_correlation_id(id);
    }
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), reply.to.clone(), options, reply.body, properties).await
}
