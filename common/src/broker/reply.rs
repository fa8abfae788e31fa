//! Answers to requests, on a connection of their own.
//!
//! A broker that runs out of memory or disk blocks connections that publish, acknowledgements included. Consuming
//! connections publish nothing, so that a queue can still be worked off then.

use super::connection::Broker;
use lapin::options::BasicPublishOptions;
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel};
use std::time::Duration;
use tokio::time::timeout;

/// Longest that an answer may take to be handed over.
const WITHIN: Duration = Duration::from_secs(1);

/// Sends answers. At most once: the truth is in the database, and a caller without an answer asks again.
#[derive(Debug)]
pub(super) struct Replies {
    broker: Broker,
    channel: Option<Channel>,
}

impl Replies {
    /// Answers go out on `broker`'s connection.
    pub(super) const fn new(broker: Broker) -> Self {
        Self { broker, channel: None }
    }

    /// Sends an answer, if that can be done soon; whether it was.
    pub(super) async fn send(&mut self, to: ShortString, id: Option<ShortString>, body: &[u8]) -> bool {
        let sent = timeout(WITHIN, self.try_send(to, id, body)).await;
        let was_sent = matches!(sent, Ok(Some(())));
        if !was_sent {
            self.channel = None;
        }
        was_sent
    }

    async fn try_send(&mut self, to: ShortString, id: Option<ShortString>, body: &[u8]) -> Option<()> {
        let mut properties = BasicProperties::default();
        if let Some(id) = id {
            properties = properties.with_correlation_id(id);
        }
        let channel = self.channel().await?;
        let published =
            channel.basic_publish("".into(), to, BasicPublishOptions::default(), body, properties);
        published.await.ok().map(drop)
    }

    async fn channel(&mut self) -> Option<&Channel> {
        let link = self.broker.link().await?;
        if link.connection.status().blocked() {
            return None;
        }
        if !self.channel.as_ref().is_some_and(|channel| channel.status().connected()) {
            self.channel = Some(link.connection.create_channel().await.ok()?);
        }
        self.channel.as_ref()
    }
}
