//! The queues of a test: a prefix of its own on a broker.

use crate::MASTER_KEY;
use crate::database::clean_up;
use crate::eventually::{PATIENCE, eventually};
use crate::mac::{MAC_HEADER, signed};
use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicConsumeOptions, BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm};

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
    /// Whether it is put into a queue as it is, not as a program would.
    is_as_it_is: bool,
}

impl QueuedMessage {
    /// One that survives a restart of the broker and wants no answer.
    pub fn new(body: &[u8]) -> Self {
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        Self { body: body.to_owned(), properties, is_as_it_is: false }
    }

    /// The same with an id of the publisher's.
    pub fn with_id(mut self, id: &str) -> Self {
        self.properties = self.properties.with_message_id(id.into());
        self
    }

    /// What ties an answer to its question.
    pub fn correlation_id(&self) -> Option<&str> {
        self.properties.correlation_id().as_ref().map(lapin::types::ShortString::as_str)
    }

    /// The same with metadata, as the programs give it to theirs.
    pub fn with_meta(self, meta: &str) -> Self {
        self.with_header("x-connect-meta", meta)
    }

    /// The same with another header.
    pub fn with_header(mut self, name: &str, text: &str) -> Self {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name.into(), AMQPValue::LongString(text.into()));
        self.properties = self.properties.with_headers(headers);
        self
    }

    /// The same with an id, and somebody who waits for an answer.
    pub fn with_id_and_reply(mut self, id: &str, reply_to: &str) -> Self {
        self.properties = self.properties.with_message_id(id.into()).with_reply_to(reply_to.into());
        self
    }

    /// A field of its metadata.
    pub fn meta_field(&self, name: &str) -> serde_json::Value {
        let headers = self.properties.headers().clone().unwrap_or_default();
        let meta = headers.inner().get("x-connect-meta");
        let Some(AMQPValue::LongString(meta)) = meta else { panic!("no metadata: {self:?}") };
        let meta: serde_json::Value = serde_json::from_slice(meta.as_bytes()).expect("JSON");
        meta[name].clone()
    }

    /// A header, when it is there and text.
    pub fn header(&self, name: &str) -> Option<String> {
        let AMQPValue::LongString(text) = self.properties.headers().as_ref()?.inner().get(name)? else {
            return None;
        };
        Some(text.to_string())
    }

    /// Names of its headers, sorted, but for the broker's own count of deliveries.
    pub fn headers(&self) -> Vec<String> {
        let headers = self.properties.headers().clone().unwrap_or_default();
        headers.inner().keys().map(ToString::to_string).filter(|name| name != "x-delivery-count").collect()
    }

    /// How often the broker has handed it out before.
    pub fn deliveries(&self) -> i64 {
        let headers = self.properties.headers().clone().unwrap_or_default();
        match headers.inner().get("x-delivery-count") {
            Some(AMQPValue::LongLongInt(count)) => *count,
            Some(_) | None => 0,
        }
    }

    /// Its id.
    pub fn id(&self) -> Option<String> {
        self.properties.message_id().as_ref().map(ToString::to_string)
    }

    /// Whether somebody waits for an answer.
    pub fn wants_reply(&self) -> bool {
        self.properties.reply_to().is_some()
    }

    /// Whether it survives a restart of the broker.
    pub fn is_persistent(&self) -> bool {
        *self.properties.delivery_mode() == Some(PERSISTENT)
    }

    /// The same with another body.
    pub fn with_body(&self, body: &[u8]) -> Self {
        Self { body: body.to_owned(), ..self.clone() }
    }

    /// The same without anybody who waits for an answer.
    pub fn without_reply(&self) -> Self {
        let headers = self.properties.headers().clone().unwrap_or_default();
        let mut properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_headers(headers);
        if let Some(id) = self.properties.message_id().clone() {
            properties = properties.with_message_id(id);
        }
        if let Some(id) = self.properties.correlation_id().clone() {
            properties = properties.with_correlation_id(id);
        }
        Self { properties, ..self.clone() }
    }

    /// The same, put into a queue exactly as it is, as whoever has the broker's credentials can.
    pub fn as_it_is(mut self) -> Self {
        self.is_as_it_is = true;
        self
    }

    /// The same without MAC, as the previous release and strangers publish.
    pub fn without_mac(mut self) -> Self {
        self.is_as_it_is = true;
        let headers = self.properties.headers().clone().unwrap_or_default();
        let mut left = FieldTable::default();
        for (name, value) in headers.inner().iter().filter(|(name, _)| name.as_str() != MAC_HEADER) {
            left.insert(name.clone(), value.clone());
        }
        self.properties = self.properties.with_headers(left);
        self
    }
}

impl From<Delivery> for QueuedMessage {
    fn from(Delivery { data, properties, .. }: Delivery) -> Self {
        Self { body: data, properties, is_as_it_is: false }
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

    /// Puts a message into a queue, as [`put`](Self::put) does.
    pub async fn publish(&self, queue: &str, body: &[u8]) {
        self.put(queue, &QueuedMessage::new(body)).await;
    }

    /// Puts a message into a queue and waits until the broker has it: as a program would, with the MAC that this takes, unless
    /// it is to be put [as it is](QueuedMessage::as_it_is). Into the queue of the CRM, which has no key, all are.
    pub async fn put(&self, queue: &str, message: &QueuedMessage) {
        self.put_all(queue, std::slice::from_ref(message)).await;
    }

    /// Puts messages into a queue as [`put`](Self::put) does, in their order.
    pub async fn put_all(&self, queue: &str, messages: &[QueuedMessage]) {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("a channel with confirms");
        let mut confirms = Vec::with_capacity(messages.len());
        for message in messages {
            confirms.push(self.send(&channel, queue, message).await);
        }
        for confirm in confirms {
            let confirmed = confirm.await.expect("a confirm");
            assert!(matches!(confirmed, Confirmation::Ack(None)), "{confirmed:?}");
        }
    }

    /// Puts a message into a queue and waits for the answer, in a queue of its own.
    pub async fn ask(&self, queue: &str, message: &QueuedMessage) -> QueuedMessage {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let answers = channel.queue_declare("".into(), exclusive, FieldTable::default()).await;
        let answers = answers.expect("a queue of its own").name().clone();
        let properties = message.properties.clone().with_reply_to(answers.clone());
        let properties = properties.with_correlation_id(answers.clone());
        self.send(&channel, queue, &QueuedMessage { properties, ..message.clone() }).await;
        let answer = eventually("an answer", PATIENCE, async || {
            let message = channel.basic_get(answers.clone(), BasicGetOptions { no_ack: true }).await;
            message.expect("the queue exists").ok_or_else(|| "nothing".to_owned())
        });
        let Delivery { data, properties, .. } = answer.await.delivery;
        let answer = QueuedMessage { body: data, properties, is_as_it_is: false };
        assert_eq!(answer.correlation_id(), Some(answers.as_str()), "an answer to this");
        answer
    }

    /// The message with the MAC of a program that publishes it to `queue`, or to one of those that forward to it.
    pub fn sign(&self, queue: &str, message: &QueuedMessage) -> QueuedMessage {
        let queue = queue.split('.').next().unwrap_or(queue);
        let properties = message.properties.clone();
        let properties = signed(MASTER_KEY, &self.name(queue), &message.body, properties);
        QueuedMessage { properties, is_as_it_is: true, ..message.clone() }
    }

    /// Replies to a message, as a worker of the previous release does: without MAC.
    pub async fn reply(&self, message: &QueuedMessage, body: &[u8]) {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("a channel with confirms");
        let to = message.properties.reply_to().clone().expect("somebody who waits");
        let id = message.properties.correlation_id().clone().expect("an id");
        let properties = BasicProperties::default().with_correlation_id(id);
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish("".into(), to, options, body, properties).await;
        drop(sent.expect("a publish").await.expect("a confirm"));
    }

    async fn send(&self, channel: &Channel, queue: &str, message: &QueuedMessage) -> PublisherConfirm {
        let is_signed = message.is_as_it_is || queue.starts_with("crm");
        let message = if is_signed { message.clone() } else { self.sign(queue, message) };
        let QueuedMessage { body, properties, .. } = message;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let name = self.name(queue).into();
        let sent = channel.basic_publish("".into(), name, options, &body, properties).await;
        sent.expect("a publish")
    }

    /// Takes a message out of a queue.
    pub async fn take(&self, queue: &str) -> Option<QueuedMessage> {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let options = BasicGetOptions { no_ack: true };
        let message = channel.basic_get(self.name(queue).into(), options).await.expect("the queue exists")?;
        Some(message.delivery.into())
    }

    /// Has the queue hand its oldest message out again and again, as to consumers that go away with it, until it comes no
    /// more. Gives how often it came.
    pub async fn wear_out(&self, queue: &str) -> u32 {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let get = async || {
            let got = channel.basic_get(self.name(queue).into(), BasicGetOptions { no_ack: false }).await;
            got.expect("the queue exists")
        };
        let mut times = 0;
        while let Some(message) = get().await {
            message.delivery.acker.reject(BasicRejectOptions { requeue: true }).await.expect("a channel");
            times += 1;
        }
        times
    }

    /// Takes all messages out of a queue, in its order. Nobody else may take some meanwhile.
    pub async fn take_all(&self, queue: &str) -> Vec<QueuedMessage> {
        let count = self.depth(queue).await.try_into().expect("a length");
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let no_ack = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let consumer =
            channel.basic_consume(self.name(queue).into(), "".into(), no_ack, FieldTable::default());
        let messages = consumer.await.expect("a consumer").take(count);
        messages.map(|message| message.expect("a message").into()).collect().await
    }

    /// Declares the queue of a wait between webhook attempts, as the programs do.
    pub async fn declare_retry(&self, level: u32) {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let name = self.name(&format!("webhooks.retry.{level}")).into();
        let declared =
            channel.queue_declare(name, QueueDeclareOptions::durable(), FieldTable::default()).await;
        declared.expect("a queue");
    }

    /// Deletes a queue such as `events`, with what is in it.
    pub async fn delete(&self, queue: &str) {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let deleted = channel.queue_delete(self.name(queue).into(), QueueDeleteOptions::default()).await;
        deleted.expect("the queue is gone");
    }

    /// Whether a queue such as `events` is declared.
    pub async fn exists(&self, queue: &str) -> bool {
        let (_connection, channel) = open(&self.url).await.expect("the broker answers");
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        channel.queue_declare(self.name(queue).into(), passive, FieldTable::default()).await.is_ok()
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
