//! The floor of single requests: bare round trips over a quorum queue of the same broker. A message of an event's
//! size is published, persistent and confirmed; a consumer on a connection of its own replies over the direct
//! reply-to and acknowledges. No HTTP, no database.

use crate::figures::{LoadStats, measure, timed};
use crate::people::person;
use crate::time_limit::with_step_timeout;
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
    QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tests::World;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use uuid::Uuid;

const REPLY_TO: &str = "amq.rabbitmq.reply-to";
/// Prefetch of the consumer: unacknowledged messages at most.
const PREFETCH: u16 = 64;
/// Messages survive a restart of the broker.
const PERSISTENT: u8 = 2;
/// What the consumer replies: about as long as the result of one event.
const REPLY: &[u8] = br#"{"accepted":1,"duplicate":0,"failed":0,"results":[{"eventId":"0c5f4d5e-0000-4000-8000-000000000000","status":"accepted","clientId":"0198a7c5-0000-7000-8000-000000000000"}]}"#;

type Pending = Rc<RefCell<HashMap<u64, oneshot::Sender<()>>>>;

/// Measures calls over a new queue with `callers` callers, for `length`.
pub(crate) async fn floor(world: &World, callers: usize, length: Duration) -> LoadStats {
    let tasks = LocalSet::new();
    tasks.run_until(measure_calls(world.queues.url(), callers, length)).await
}

async fn measure_calls(url: &str, callers: usize, length: Duration) -> LoadStats {
    let set_up = async {
        let connect = async || Connection::connect(url, ConnectionProperties::default()).await;
        let publishing = connect().await.expect("the broker accepts connections");
        let consuming = connect().await.expect("the broker accepts connections");
        let calls = RpcClient::open(&publishing).await;
        let consumer = consume(&consuming, &calls.queue).await;
        let replies = calls.replies().await;
        (publishing, consuming, calls, consumer, replies)
    };
    let (_publishing, _consuming, calls, consumer, replies) =
        with_step_timeout("a queue of the floor's own is declared and consumed", set_up).await;
    let replies = tokio::task::spawn_local(replies);
    let replier = tokio::task::spawn_local(reply_to_all(consumer.0, consumer.1));
    let stats =
        measure(&mut vec![(); callers], length, 1, async |(): &mut ()| timed(calls.call()).await.1).await;
    replies.abort();
    replier.abort();
    with_step_timeout("the floor's queue is deleted", calls.delete()).await;
    stats
}

/// The side that publishes requests and waits for replies.
struct RpcClient {
    channel: Channel,
    queue: String,
    body: Vec<u8>,
    next: Cell<u64>,
    pending: Pending,
}

impl RpcClient {
    async fn open(connection: &Connection) -> Self {
        let channel = connection.create_channel().await.expect("a channel");
        channel.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
        let queue = format!("connect_bench_{}", Uuid::now_v7().simple());
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let declared =
            channel.queue_declare(queue.as_str().into(), QueueDeclareOptions::durable(), arguments);
        declared.await.expect("a queue");
        let body = person(0).actor.repeat(4).into_bytes();
        Self { channel, queue, body, next: Cell::new(0), pending: Pending::default() }
    }

    /// Passes each reply to its call until it is dropped.
    async fn replies(&self) -> impl Future<Output = ()> + use<> {
        let options = BasicConsumeOptions { no_ack: true, ..BasicConsumeOptions::default() };
        let consumer = self.channel.basic_consume(REPLY_TO.into(), "".into(), options, FieldTable::default());
        let mut consumer = consumer.await.expect("a consumer of replies");
        let pending = Rc::clone(&self.pending);
        async move {
            while let Some(delivery) = consumer.next().await {
                let delivery = delivery.expect("a reply");
                let id = delivery.properties.correlation_id().as_ref().map(ShortString::as_str);
                let id: u64 = id.and_then(|id| id.parse().ok()).expect("the call's id");
                if let Some(waiting) = pending.borrow_mut().remove(&id) {
                    // The caller has stopped waiting when the measurement has just ended.
                    waiting.send(()).ok();
                }
            }
        }
    }

    /// Publishes a request and waits for its confirm and its reply.
    async fn call(&self) {
        let id = self.next.replace(self.next.get() + 1);
        let (replied, reply) = oneshot::channel();
        self.pending.borrow_mut().insert(id, replied);
        let properties = BasicProperties::default()
            .with_delivery_mode(PERSISTENT)
            .with_correlation_id(id.to_string().into())
            .with_reply_to(REPLY_TO.into());
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let published = self.channel.basic_publish(
            "".into(),
            self.queue.as_str().into(),
            options,
            &self.body,
            properties,
        );
        let confirmed = published.await.expect("a publish").await.expect("a confirm");
        assert!(matches!(confirmed, Confirmation::Ack(None)), "{confirmed:?}");
        reply.await.expect("a reply");
    }

    async fn delete(&self) {
        drop(self.channel.queue_delete(self.queue.as_str().into(), QueueDeleteOptions::default()).await);
    }
}

/// The consumer of the queue, with its channel.
async fn consume(connection: &Connection, queue: &str) -> (Channel, Consumer) {
    let channel = connection.create_channel().await.expect("a channel");
    channel.basic_qos(PREFETCH, BasicQosOptions::default()).await.expect("a prefetch");
    let options = BasicConsumeOptions::default();
    let consumer = channel.basic_consume(queue.into(), "".into(), options, FieldTable::default()).await;
    (channel, consumer.expect("a consumer"))
}

/// Replies to each message and acknowledges it, until it is dropped.
async fn reply_to_all(channel: Channel, mut consumer: Consumer) {
    while let Some(delivery) = consumer.next().await {
        let delivery = delivery.expect("a message");
        let reply_to = delivery.properties.reply_to().clone().expect("a reply is wanted");
        let id = delivery.properties.correlation_id().clone().expect("the call's id");
        let properties = BasicProperties::default().with_correlation_id(id);
        let options = BasicPublishOptions::default();
        channel
            .basic_publish("".into(), reply_to, options, REPLY, properties)
            .await
            .expect("a reply is sent");
        delivery.ack(BasicAckOptions::default()).await.expect("an acknowledgement");
    }
}
