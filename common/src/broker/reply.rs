//! Replies to requests, on a connection of their own.
//!
//! A broker that runs out of memory or disk blocks connections that publish, acknowledgements included. Consuming
//! connections publish nothing, so that queues can still be processed then.

use super::connection::Broker;
use super::mac::{MAC_HEADER, MessageKeys, Purpose, SignedFields};
use super::time_limit::in_time;
use super::topology::Queue;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
use lapin::options::BasicPublishOptions;
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, PublisherConfirm};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// Maximum time that sending a reply may take.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Reply {
    /// The request's `reply_to`.
    pub(super) to: ShortString,
    /// The request's correlation id.
    pub(super) id: Option<ShortString>,
    /// The body, which the MAC covers.
    pub(super) body: Vec<u8>,
}

/// Sends replies, each at most once: the result is in the database, and a caller without a reply retries its request.
#[derive(Debug)]
pub(super) struct Replies {
    broker: Broker,
    /// What they are signed for.
    purpose: Purpose,
    channel: Option<Arc<Channel>>,
    /// Replies that the AMQP library has and may not have written.
    unwritten: FuturesUnordered<BoxFuture<'static, lapin::Result<PublisherConfirm>>>,
}

impl Replies {
    /// Replies to messages of `queue`, which go out on `broker`'s connection.
    pub(super) fn new(broker: Broker, queue: Queue) -> Self {
        Self { broker, purpose: Purpose::Reply(queue), channel: None, unwritten: FuturesUnordered::new() }
    }

    /// Hands replies over to the AMQP library. Returns for each whether it could be. They are written without the caller, which
    /// would otherwise be woken for nothing; it must call [`Replies::until_written`] before too many wait.
    pub(super) async fn send_all(&mut self, replies: Vec<Reply>) -> Vec<bool> {
        if replies.is_empty() {
            return Vec::new();
        }
        let Some(channel) = self.channel().await else {
            self.channel = None;
            return vec![false; replies.len()];
        };
        let hand_over = |reply| {
            let mut sending = publish(Arc::clone(&channel), self.broker.keys().clone(), self.purpose, reply).boxed();
            match sending.as_mut().now_or_never() {
                Some(sent) => sent.is_ok(),
                None => {
                    self.unwritten.push(sending);
                    true
                }
            }
        };
        replies.into_iter().map(hand_over).collect()
    }

    /// Waits until all replies are written, or cannot be.
    pub(super) async fn until_written(&mut self) {
        let written = timeout(SEND_TIMEOUT, self.unwritten.by_ref().try_for_each(|_| ready(Ok(())))).await;
        if !matches!(written, Ok(Ok(()))) {
            self.unwritten.clear();
            self.channel = None;
        }
    }

    /// The open channel. Opening one may take longer than sending: a reply that is not sent is never sent.
    async fn channel(&mut self) -> Option<Arc<Channel>> {
        let link = timeout(SEND_TIMEOUT, self.broker.link()).await.ok()??;
        if link.connection.status().blocked() {
            return None;
        }
        if !self.channel.as_ref().is_some_and(|channel| channel.status().connected()) {
            self.channel = Some(Arc::new(in_time(link.connection.create_channel()).await.ok()?));
        }
        self.channel.clone()
    }
}

async fn publish(
    channel: Arc<Channel>, keys: MessageKeys, purpose: Purpose, reply: Reply,
) -> lapin::Result<PublisherConfirm> {
    let correlation_id = reply.id.as_ref().map(ShortString::as_str);
    let covered = SignedFields { message_id: None, correlation_id, meta: None, body: &reply.body };
    let mut headers = FieldTable::default();
    headers.insert(MAC_HEADER.into(), keys.sign(purpose, covered));
    let mut properties = BasicProperties::default().with_headers(headers);
    if let Some(id) = reply.id {
        properties = properties.with_correlation_id(id);
    }
    let options = BasicPublishOptions::default();
    channel.basic_publish("".into(), reply.to, options, &reply.body, properties).await
}
