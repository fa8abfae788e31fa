//! The queues of a test, with a unique prefix on a shared broker.

use crate::MASTER_KEY;
use crate::database::clean_up;
use crate::eventually::{MAX_WAIT, eventually};
use crate::mac::{MAC_HEADER, with_mac};
use lapin::message::Delivery;
use lapin::options::{
    BasicGetOptions, BasicPublishOptions, BasicRejectOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm};

/// The four queues (docs/operators.md), without prefix.
const NAMES: [&str; 4] = ["events", "records", "crm", "webhooks"];
/// Delivery mode of messages that survive a restart of the broker.
const PERSISTENT: u8 = 2;

/// Queues of one prefix; deleted with their value.
#[derive(Debug)]
pub struct Queues {
    url: String,
    prefix: String,
    is_shared: bool,
}

/// A message with its properties.
#[derive(Clone, Debug)]
pub struct QueuedMessage {
    /// What the MAC is computed over, beside headers.
    pub body: Vec<u8>,
    properties: BasicProperties,
    /// Whether it is published unchanged instead of with a new MAC.
    is_verbatim: bool,
}

impl QueuedMessage {
    /// A persistent message that asks for no reply.
    pub fn new(body: &[u8]) -> Self {
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        Self { body: body.to_owned(), properties, is_verbatim: false }
    }

    /// Sets the message id.
    pub fn with_id(mut self, id: &str) -> Self {
        self.properties = self.properties.with_message_id(id.into());
        self
    }

    /// The correlation id, which ties a reply to its request.
    pub fn correlation_id(&self) -> Option<&str> {
        self.properties.correlation_id().as_ref().map(lapin::types::ShortString::as_str)
    }

    /// Sets the metadata header that the programs use.
    pub fn with_meta(self, meta: &str) -> Self {
        self.with_header("x-connect-meta", meta)
    }

    /// Sets an AMQP header to a text.
    pub fn with_header(mut self, name: &str, text: &str) -> Self {
        let mut headers = self.properties.headers().clone().unwrap_or_default();
        headers.insert(name.into(), AMQPValue::LongString(text.into()));
        self.properties = self.properties.with_headers(headers);
        self
    }

    /// Sets the message id and the reply queue.
    pub fn with_id_and_reply(mut self, id: &str, reply_to: &str) -> Self {
        self.properties = self.properties.with_message_id(id.into()).with_reply_to(reply_to.into());
        self
    }

    /// A field of the metadata header.
    pub fn meta_field(&self, name: &str) -> serde_json::Value {
        let meta = self.header("x-connect-meta").unwrap_or_else(|| panic!("no metadata: {self:?}"));
        let meta: serde_json::Value = serde_json::from_str(&meta).expect("JSON");
        meta[name].clone()
    }

    /// A header, when it is present and text.
    pub fn header(&self, name: &str) -> Option<String> {
        let AMQPValue::LongString(text) = self.properties.headers().as_ref()?.inner().get(name)? else {
            return None;
        };
        Some(text.to_string())
    }

    /// Names of the headers, sorted, without the broker's delivery count.
    pub fn headers(&self) -> Vec<String> {
        let headers = self.properties.headers().clone().unwrap_or_default();
        headers.inner().keys().map(ToString::to_string).filter(|name| name != "x-delivery-count").collect()
    }

    /// How often the broker has delivered the message before.
    pub fn delivery_count(&self) -> i64 {
        let headers = self.properties.headers().clone().unwrap_or_default();
        match headers.inner().get("x-delivery-count") {
            Some(AMQPValue::LongLongInt(count)) => *count,
            Some(_) | None => 0,
        }
    }

    /// AMQP `message-id`, if the sender set one.
    pub fn id(&self) -> Option<String> {
        self.properties.message_id().as_ref().map(ToString::to_string)
    }

    /// Whether the message names a reply queue.
    pub fn wants_reply(&self) -> bool {
        self.properties.reply_to().is_some()
    }

    /// Whether the message survives a restart of the broker.
    pub fn is_persistent(&self) -> bool {
        *self.properties.delivery_mode() == Some(PERSISTENT)
    }

    /// A copy with another body.
    pub fn with_body(&self, body: &[u8]) -> Self {
        Self { body: body.to_owned(), ..self.clone() }
    }

    /// A copy without a reply queue.
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

    /// Has the message published unchanged, as anybody with the broker's credentials can.
    pub fn verbatim(mut self) -> Self {
        self.is_verbatim = true;
        self
    }

    /// Removes the MAC and has the message published unchanged, as by a stranger.
    pub fn without_mac(mut self) -> Self {
        self.is_verbatim = true;
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
        Self { body: data, properties, is_verbatim: false }
    }
}

impl Queues {
    /// The queues that begin with `prefix`. The programs declare them.
    pub fn new(url: &str, prefix: String) -> Self {
        Self { url: url.to_owned(), prefix, is_shared: false }
    }

    /// The same queues for another test.
    pub(crate) fn shared(&self) -> Self {
        Self { url: self.url.clone(), prefix: self.prefix.clone(), is_shared: true }
    }

    /// The value for `AMQP_URL`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The value for `CONNECT_QUEUE_PREFIX`.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Number of messages that wait in a queue such as `events` or `events.dead`.
    pub async fn depth(&self, queue: &str) -> u32 {
        let (_connection, channel) = self.open().await;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        let declared = channel.queue_declare(self.name(queue).into(), passive, FieldTable::default()).await;
        declared.expect("the queue exists").message_count()
    }

    /// Publishes a body, as [`publish_message`](Self::publish_message) does.
    pub async fn publish(&self, queue: &str, body: &[u8]) {
        self.publish_message(queue, &QueuedMessage::new(body)).await;
    }

    /// Publishes a message to a queue and waits until the broker confirms it. It gets the MAC that a program would give it,
    /// unless it is [verbatim](QueuedMessage::verbatim). Messages to the queue of the CRM have no MAC.
    pub async fn publish_message(&self, queue: &str, message: &QueuedMessage) {
        self.publish_all(queue, std::slice::from_ref(message)).await;
    }

    /// Publishes messages as [`publish_message`](Self::publish_message) does, in their order.
    pub async fn publish_all(&self, queue: &str, messages: &[QueuedMessage]) {
        let (_connection, channel) = self.open().await;
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

    /// Publishes a message and waits for the reply in an exclusive queue.
    pub async fn call(&self, queue: &str, message: &QueuedMessage) -> QueuedMessage {
        let (_connection, channel) = self.open().await;
        let exclusive = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
        let reply_queue = channel.queue_declare("".into(), exclusive, FieldTable::default()).await;
        let reply_queue = reply_queue.expect("an exclusive queue").name().clone();
        let properties = message.properties.clone().with_reply_to(reply_queue.clone());
        let properties = properties.with_correlation_id(reply_queue.clone());
        self.send(&channel, queue, &QueuedMessage { properties, ..message.clone() }).await;
        let reply = eventually("a reply", MAX_WAIT, async || {
            let message = channel.basic_get(reply_queue.clone(), BasicGetOptions { no_ack: true }).await;
            message.expect("the queue exists").ok_or_else(|| "nothing".to_owned())
        });
        let reply = QueuedMessage::from(reply.await.delivery);
        assert_eq!(reply.correlation_id(), Some(reply_queue.as_str()), "the reply to this message");
        reply
    }

    /// A copy with the MAC of a program that publishes it to `queue`, or to a queue that forwards to it.
    pub fn sign(&self, queue: &str, message: &QueuedMessage) -> QueuedMessage {
        let queue = queue.split('.').next().unwrap_or(queue);
        let properties = message.properties.clone();
        let properties = with_mac(MASTER_KEY, &self.name(queue), &message.body, properties);
        QueuedMessage { properties, is_verbatim: true, ..message.clone() }
    }

    /// Replies to a message as a stranger does: without a MAC.
    pub async fn reply(&self, message: &QueuedMessage, body: &[u8]) {
        let (_connection, channel) = self.open().await;
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("a channel with confirms");
        let to = message.properties.reply_to().clone().expect("somebody who waits");
        let id = message.properties.correlation_id().clone().expect("an id");
        let properties = BasicProperties::default().with_correlation_id(id);
        let options = BasicPublishOptions::default();
        let sent = channel.basic_publish("".into(), to, options, body, properties).await;
        drop(sent.expect("a publish").await.expect("a confirm"));
    }

    async fn send(&self, channel: &Channel, queue: &str, message: &QueuedMessage) -> PublisherConfirm {
        let is_signed = message.is_verbatim || queue.starts_with("crm");
        let message = if is_signed { message.clone() } else { self.sign(queue, message) };
        let QueuedMessage { body, properties, .. } = message;
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let name = self.name(queue).into();
        let sent = channel.basic_publish("".into(), name, options, &body, properties).await;
        sent.expect("a publish")
    }

    /// Takes a message out of a queue.
    pub async fn take(&self, queue: &str) -> Option<QueuedMessage> {
        let (_connection, channel) = self.open().await;
        self.get(&channel, queue, true).await.map(Into::into)
    }

    /// Requeues the oldest message until the queue no longer delivers it, as when consumers end before they acknowledge it.
    /// Returns how often it was delivered.
    pub async fn exhaust_deliveries(&self, queue: &str) -> u32 {
        let (_connection, channel) = self.open().await;
        let mut times = 0;
        while let Some(message) = self.get(&channel, queue, false).await {
            message.acker.reject(BasicRejectOptions { requeue: true }).await.expect("a channel");
            times += 1;
        }
        times
    }

    /// Takes the oldest message and requeues it, as when its consumer ends: it is redelivered then.
    pub async fn requeue(&self, queue: &str) {
        let (_connection, channel) = self.open().await;
        let message = self.get(&channel, queue, false).await.expect("a message");
        message.acker.reject(BasicRejectOptions { requeue: true }).await.expect("a channel");
    }

    /// Takes all messages out of a queue, in order. There must be no other consumer.
    pub async fn take_all(&self, queue: &str) -> Vec<QueuedMessage> {
        let (_connection, channel) = self.open().await;
        let mut messages = Vec::new();
        // Not a consumer for the length of the queue: a busy broker may report 0 for a quorum queue that has messages.
        while let Some(got) = self.get(&channel, queue, true).await {
            messages.push(got.into());
        }
        messages
    }

    /// Deletes a queue such as `events` with its messages.
    pub async fn delete(&self, queue: &str) {
        let (_connection, channel) = self.open().await;
        let deleted = channel.queue_delete(self.name(queue).into(), QueueDeleteOptions::default()).await;
        deleted.expect("the queue is gone");
    }

    /// Whether a queue such as `events` is declared.
    pub async fn exists(&self, queue: &str) -> bool {
        let (_connection, channel) = self.open().await;
        let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::durable() };
        channel.queue_declare(self.name(queue).into(), passive, FieldTable::default()).await.is_ok()
    }

    async fn open(&self) -> (Connection, Channel) {
        open(&self.url).await.expect("the broker accepts connections")
    }

    /// The oldest message, which is acknowledged at once or not at all.
    async fn get(&self, channel: &Channel, queue: &str, no_ack: bool) -> Option<Delivery> {
        let got = channel.basic_get(self.name(queue).into(), BasicGetOptions { no_ack }).await;
        got.expect("the queue exists").map(|message| message.delivery)
    }

    fn name(&self, queue: &str) -> String {
        format!("{}.{queue}", self.prefix)
    }

    /// All queues that may exist. Deleting a queue that does not exist does nothing.
    fn all(&self) -> Vec<String> {
        let plain = NAMES.iter().map(|name| self.name(name));
        // Dead-letter queues come last: the other queues publish to them.
        let dead = NAMES.iter().map(|name| self.name(&format!("{name}.dead")));
        plain.chain(dead).collect()
    }
}

impl Drop for Queues {
    fn drop(&mut self) {
        if self.is_shared {
            return;
        }
        let (url, names) = (self.url.clone(), self.all());
        // A broker that the test has stopped is deleted with its queues.
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
