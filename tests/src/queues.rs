//! The queues of a test: a prefix of its own on a broker.

use crate::database::clean_up;
use lapin::message::Delivery;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties};

/// The queues of the operator's contract, without prefix.
const NAMES: [&str; 4] = ["events", "records", "crm", "webhooks"];
/// Messages survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// More than there are waits between webhook attempts.
const RETRY_LEVELS: usize = 31;

/// Queues of one prefix; deleted with their value.
#[derive(Debug)]
pub struct Queues {
    url: String,
    prefix: String,
}

/// A message with all that it came with.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    /// The body.
    pub body: Vec<u8>,
    properties: BasicProperties,
}

impl QueuedMessage {
    /// The same with another body.
    pub fn with_body(&self, body: &[u8]) -> Self {
        Self { body: body.to_owned(), properties: self.properties.clone() }
    }

    /// The same without anybody who waits for an answer.
    pub fn without_reply(&self) -> Self {
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let headers = self.properties.headers().clone().unwrap_or_default();
        Self { body: self.body.clone(), properties: properties.with_headers(headers) }
    }
}

impl Queues {
    /// Those that begin with `prefix`. The programs declare them.
    pub fn new(url: &str, prefix: String) -> Self {
        Self { url: url.to_owned(), prefix }
    }

    /// `AMQP_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `CONNECT_QUEUE_PREFIX`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Messages that wait in a queue such as `events` or `events.dead`.
    pub async fn depth(&self, queue: &str) -> u32 {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let declared = channel.queue_declare(self.name(queue).into(), passive, FieldTable::default()).await;
        declared.expect("the queue exists").message_count()
    }

    /// Puts a message into a queue, as something that isn't ingest may, and waits until the broker has it.
    pub async fn publish(&self, queue: &str, body: &[u8]) {
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        self.put(queue, &QueuedMessage { body: body.to_owned(), properties }).await;
    }

    /// Puts a message into a queue and waits until the broker has it.
    pub async fn put(&self, queue: &str, message: &QueuedMessage) {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("a channel with confirms");
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let properties = message.properties.clone();
        let sent = channel
            .basic_publish("".into(), self.name(queue).into(), options, &message.body, properties)
            .await;
        let confirmed = sent.expect("a publish").await.expect("a confirm");
        assert!(matches!(confirmed, Confirmation::Ack(None)), "{confirmed:?}");
    }

    /// Takes a message out of a queue.
    pub async fn take(&self, queue: &str) -> Option<QueuedMessage> {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let options = BasicGetOptions { no_ack: true };
        let message = channel.basic_get(self.name(queue).into(), options).await.expect("the queue exists")?;
        let Delivery { data, properties, .. } = message.delivery;
        Some(QueuedMessage { body: data, properties })
    }

    fn name(&self, queue: &str) -> String {
        format!("{}.{queue}", self.prefix)
    }

    /// All that there may be. Deleting one that isn't there does nothing.
    fn all(&self) -> Vec<String> {
        let plain = NAMES.iter().map(|name| self.name(name));
        // After them: a queue that dead-letters into one that is gone has nowhere to put its messages.
        let dead = NAMES.iter().map(|name| self.name(&format!("{name}.dead")));
        let retry = (1..=RETRY_LEVELS).map(|level| self.name(&format!("webhooks.retry.{level}")));
        plain.chain(retry).chain(dead).collect()
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        let (url, names) = (self.url.clone(), self.all());
        // A broker that the test has stopped takes its queues with it.
        clean_up(async move {
            let Ok((_connection, channel)) = open(&url).await else { return };
            for name in names {
                drop(channel.queue_delete(name.into(), QueueDeleteOptions::default()).await);
            }
        });
    }
}

async fn open(url: &str) -> lapin::Result<(Connection, Channel)> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}
