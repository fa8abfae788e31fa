//! Replies to requests, on a connection of their own.
//!
//! A broker that runs out of memory or disk blocks connections that publish, acknowledgements included. Consuming
//! connections publish nothing, so that queues can still be processed then.

use super::connection::Broker;
use super::mac::{MAC_HEADER, Purpose, SignedFields};
use super::time_limit::in_time;
use super::topology::Queue;
use futures_util::future::{BoxFuture, ready};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt, TryStreamExt};
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
    /// Replies that the AMQP library has and may not have written.
    unwritten: FuturesUnordered<BoxFuture<'static, lapin::Result<PublisherConfirm>>>,
}

impl Replies {
    /// Replies to messages of `queue`, which go out on `broker`'s connection.
    pub(super) fn new(broker: Broker, queue: Queue) -> Self {
        Self { broker, purpose: Purpose::Reply(queue), channel: None, unwritten: FuturesUnordered::new() }
    }

    /// Hands a reply over to the AMQP library. Returns whether it could be. It is written without the caller, which would
    /// otherwise be woken for nothing; who sends some must call [`Replies::until_written`].
    pub(super) async fn send(&mut self, Reply { to, id, body }: Reply<'_>) -> bool {
        let Some(channel) = self.channel().await else {
            self.channel = None;
            return false;
        };
        let correlation_id = id.as_ref().map(ShortString::as_str);
        let covered = SignedFields { message_id: None, correlation_id, meta: None, body };
        let mut headers = FieldTable::default();
        headers.insert(MAC_HEADER.into(), self.broker.keys().sign(self.purpose, covered));
        let mut properties = BasicProperties::default().with_headers(headers);
        if let Some(id) = id {
            properties = properties.with_correlation_id(id);
        }
        let (options, body) = (BasicPublishOptions::default(), body.to_owned());
        let sending = async move { channel.basic_publish("".into(), to, options, &body, properties).await };
        let mut sending = sending.boxed();
        let sent = sending.as_mut().now_or_never();
        if sent.is_none() {
            self.unwritten.push(sending);
        }
        sent.is_none_or(|sent| sent.is_ok())
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
    async fn channel(&mut self) -> Option<Channel> {
        let link = timeout(SEND_TIMEOUT, self.broker.link()).await.ok()??;
        if link.connection.status().blocked() {
            return None;
        }
        if !self.channel.as_ref().is_some_and(|channel| channel.status().connected()) {
            self.channel = Some(in_time(link.connection.create_channel()).await.ok()?);
        }
        self.channel.clone()
    }
}
