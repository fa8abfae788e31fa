//! The floor of single requests: bare round trips over a quorum queue of the same broker. A message of an event's
//! size is published, persistent and confirmed; a consumer on a connection of its own replies over the direct
//! reply-to and acknowledges. No HTTP, no database.

use crate::measure::{LoadStats, measure, timed};
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, Error};
use std::time::Duration;
use tests::World;
use tokio::sync::Mutex;
use uuid::Uuid;

const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// Messages survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// Bytes of a message and of a reply: those of an event and its result.
const REQUEST: [u8; 600] = [b'x'; 600];
const REPLY: [u8; 180] = [b'x'; 180];

/// Measures calls over a new queue with as many callers as the load has, for `length`.
pub(crate) async fn round_trips(world: &World, callers: usize, length: Duration) -> LoadStats {
    let measured = measure_calls(world.queues.url(), callers, length).await;
    measured.unwrap_or_else(|error| panic!("round trips over a bare queue: {error}"))
}

async fn measure_calls(url: &str, callers: usize, length: Duration) -> Result<LoadStats, Error> {
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
    let mut channels = Vec::new();
    for _ in 0..callers {
        let channel = publishing.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        let (options, none) = (BasicConsumeOptions { no_ack: true, ..options }, FieldTable::default());
        let replies = channel.basic_consume(REPLY_TO.into(), "".into(), options, none).await?;
        channels.push((channel, Mutex::new(replies)));
    }
    let stats = measure(callers, length, 1, async |number| {
        let (channel, replies) = &channels[number];
        let (done, took) = timed(call(channel, &queue, replies)).await;
        done.unwrap_or_else(|error| panic!("a round trip over a bare queue: {error}"));
        took
    })
    .await;
    replier.abort();
    channel.queue_delete(queue, QueueDeleteOptions::default()).await?;
    Ok(stats)
}

/// Publishes a request and waits for its confirm and its reply.
async fn call(channel: &Channel, queue: &ShortString, replies: &Mutex<Consumer>) -> Result<(), Error> {
    let properties = BasicProperties::default().with_delivery_mode(PERSISTENT).with_reply_to(REPLY_TO.into());
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let published = channel.basic_publish("".into(), queue.clone(), options, &REQUEST, properties).await?;
    let confirmed = published.await?;
    assert!(matches!(confirmed, Confirmation::Ack(None)), "{confirmed:?}");
    replies.lock().await.next().await.expect("a reply").map(drop)
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
