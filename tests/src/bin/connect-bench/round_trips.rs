//! The floor of single requests: bare round trips over a quorum queue of the same broker. A message of an event's
//! size is published, persistent and confirmed; a consumer on a connection of its own replies over the direct
//! reply-to and acknowledges. No HTTP, no database.

use crate::measure::{LoadStats, measure, timed};
use futures_util::StreamExt;
use futures_util::future::join_all;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, Error};
use std::time::Duration;
use tests::World;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use uuid::Uuid;

const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// Messages survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Bytes of a message and of a reply: those of an event and its result.
const REQUEST: [u8; 600] = [b'x'; 600];
const REPLY: [u8; 180] = [b'x'; 180];

/// A quorum queue, and a consumer that replies.
pub(crate) struct BareQueue {
    publishing: Connection,
    /// Kept open.
    _consuming: Connection,
    channel: Channel,
    queue: ShortString,
    replier: JoinHandle<Result<(), Error>>,
}

/// A channel on which requests are published and their replies received.
pub(crate) struct Caller {
    channel: Channel,
    queue: ShortString,
    replies: Mutex<Consumer>,
}

/// Measures calls over a new queue with as many callers as the load has, for `length`.
pub(crate) async fn round_trips(world: &World, callers: usize, length: Duration) -> LoadStats {
    let queue = BareQueue::open(world).await;
    let callers: Vec<Caller> = join_all((0..callers).map(|_| queue.caller())).await;
    let stats = measure(callers.len(), length, 1, async |number| timed(callers[number].call()).await.1).await;
    queue.delete().await;
    stats
}

impl BareQueue {
    pub(crate) async fn open(world: &World) -> Self {
        Self::try_open(world.queues.url()).await.expect("a bare queue")
    }

    async fn try_open(url: &str) -> Result<Self, Error> {
        let publishing = Connection::connect(url, ConnectionProperties::default()).await?;
        let consuming = Connection::connect(url, ConnectionProperties::default()).await?;
        let queue = ShortString::from(format!("connect_bench_{}", Uuid::now_v7().simple()));
        let channel = consuming.create_channel().await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        channel.queue_declare(queue.clone(), QueueDeclareOptions::durable(), arguments).await?;
        let (options, none) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel.basic_consume(queue.clone(), "".into(), options, none).await?;
        let replier = tokio::spawn(reply_to_all(channel.clone(), consumer));
        Ok(Self { publishing, _consuming: consuming, channel, queue, replier })
    }

    pub(crate) async fn caller(&self) -> Caller {
        self.try_caller().await.expect("a channel on a bare queue")
    }

    async fn try_caller(&self) -> Result<Caller, Error> {
        let channel = self.publishing.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let replies = channel.basic_consume(REPLY_TO.into(), "".into(), options, FieldTable::default()).await?;
        Ok(Caller { channel, queue: self.queue.clone(), replies: Mutex::new(replies) })
    }

    pub(crate) async fn delete(self) {
        self.replier.abort();
        self.channel.queue_delete(self.queue, QueueDeleteOptions::default()).await.expect("the queue is deleted");
    }
}

impl Caller {
    /// Publishes a request and waits for its confirm and its reply.
    pub(crate) async fn call(&self) {
        self.try_call().await.unwrap_or_else(|error| panic!("a round trip over a bare queue: {error}"));
    }

    async fn try_call(&self) -> Result<(), Error> {
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_reply_to(REPLY_TO.into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let queue = self.queue.clone();
        let confirmed = self.channel.basic_publish("".into(), queue, options, &REQUEST, properties).await?.await?;
        assert!(matches!(confirmed, Confirmation::Ack(None)), "{confirmed:?}");
        self.replies.lock().await.next().await.expect("a reply").map(drop)
    }
}

async fn reply_to_all(channel: Channel, mut consumer: Consumer) -> Result<(), Error> {
    while let Some(delivery) = consumer.next().await {
        let delivery = delivery?;
        let (reply_to, options) =
            (delivery.properties.reply_to().clone().expect("a reply is wanted"), BasicPublishOptions::default());
        channel.basic_publish("".into(), reply_to, options, &REPLY, BasicProperties::default()).await?;
        delivery.ack(BasicAckOptions::default()).await?;
    }
    Ok(())
}
