//! A lane of consumption: takes what is waiting, up to a bound, and hands it on as one unit. [`super::settle`] replies and
//! acknowledges.

use super::connection::{Broker, Link};
use super::consumer_log::{log_cannot_consume, log_consumer_lost};
use super::dead_log::log_forged;
use super::dead_part::DeadPart;
use super::in_hand::{self, Held};
use super::mac::{FORGED, Forged, MessageKeys, Purpose};
use super::reply::Replies;
use super::rpc::META_HEADER;
use super::topology::Queue;
use crate::metrics::{self as names, APPLY_DURATION, DEAD_LETTERED, QUEUE_LAG, REDELIVERED};
use crate::trace::{TRACEPARENT, TraceContext, Trail};
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Consumer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tracing::Span;
use tracing::field::display;
use uuid::Uuid;

/// Longest that closing a channel may take; a broker that blocks publishers doesn't answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Wait before a lane is opened again.
const REOPEN_AFTER: Duration = Duration::from_millis(250);

/// A message as the handler sees it.
#[derive(Clone, Debug)]
pub struct Message {
    /// The body.
    pub body: Vec<u8>,
    /// JSON metadata of the publisher, when it is there and text.
    pub meta: Option<String>,
    /// The publisher's place in a trace, as a header says it.
    pub traceparent: Option<String>,
    /// The publisher's own id of the message, when there is one that isn't blank.
    pub message_id: Option<String>,
    /// The request that its ids name. A stranger's may be anything: only a UUID is a request's.
    pub request_id: Option<Uuid>,
    /// Whether an answer is wanted.
    pub wants_reply: bool,
    /// Whether the broker delivered it before.
    pub redelivered: bool,
}

impl Message {
    /// Reads what the broker delivered from `queue`, and tells whether its MAC verifies. Only a message that does may be
    /// handled; the log names the ids of the others.
    pub fn read(
        queue: Queue,
        keys: &MessageKeys,
        properties: &BasicProperties,
        body: Vec<u8>,
        redelivered: bool,
    ) -> (Self, Result<(), Forged>) {
        let verified = keys.verify(Purpose::Message(queue), properties, &body);
        let message = Self {
            body,
            meta: header(properties, META_HEADER),
            traceparent: header(properties, TRACEPARENT),
            message_id: message_id(properties),
            request_id: request_id(properties),
            wants_reply: properties.reply_to().is_some(),
            redelivered,
        };
        (message, verified)
    }

    /// What log lines about the message name, as far as its ids and headers tell.
    pub fn span(&self) -> Span {
        let context = self.traceparent.as_deref().and_then(TraceContext::parse);
        let request_id = self.request_id.map(display);
        let trace_id = context.map(|context| display(context.trace_id));
        tracing::error_span!("message", request_id, trace_id)
    }
}

/// What is to become of a message. The handler decides, the lane does it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Handled: send the reply, then acknowledge.
    Done {
        /// The answer's body.
        reply: Vec<u8>,
        /// What it is due to, for the log, where the handler knows more than ids and headers tell.
        trail: Option<Trail>,
    },
    /// Handled but for some parts: send the reply, publish those parts to the dead-letter queue, then acknowledge.
    Partly {
        /// The reply's body.
        reply: Vec<u8>,
        /// What can never be handled.
        unreadable: Vec<DeadPart>,
    },
    /// Can never be handled: to the dead-letter queue, after an answer where one is wanted.
    Dead {
        /// For the log and the metric's label; a fixed word, no data of the message.
        reason: &'static str,
        /// The answer's body.
        reply: Option<Vec<u8>>,
        /// As of what is done.
        trail: Option<Trail>,
    },
    /// Not handled, because the program ends first: neither acknowledged nor rejected, so that it goes back to the
    /// queue when the lane closes.
    Leave,
}

/// Handles the messages of a lane.
pub trait Handler: Send {
    /// The reasons of its [`Verdict::Dead`].
    const DEATHS: &'static [&'static str];

    /// How much of a unit a message takes.
    fn weigh(&self, message: &Message) -> usize;

    /// Handles a unit and gives a verdict for each message, in their order. Doesn't return before everything that
    /// must be durable is: what it returns is acknowledged. Is never cancelled half-way.
    fn handle(&mut self, unit: &[Message]) -> impl Future<Output = Vec<Verdict>> + Send;
}

/// How much a lane takes at once.
#[derive(Clone, Copy, Debug)]
pub struct LaneBounds {
    /// Messages the broker hands out ahead.
    pub prefetch: u16,
    /// Most messages of a unit.
    pub messages: usize,
    /// Most weight of a unit; a single message may be heavier.
    pub weight: usize,
    /// Most bytes of a unit's bodies; a single message may be larger.
    pub bytes: usize,
    /// Among the lanes of a queue: one gets messages only while those of a higher priority have been handed all that
    /// they may be handed ahead.
    pub priority: i8,
}

/// Consumes `queue` until `shutdown`, on one connection of `broker` after the other, and answers on `replies`'.
///
/// `consuming` counts the lanes that do so now. At `shutdown` the unit in hand is finished; what was only handed out ahead goes back to the queue.
pub async fn run_lane<H: Handler>(
    broker: &Broker,
    replies: &Broker,
    queue: Queue,
    bounds: LaneBounds,
    mut handler: H,
    consuming: &AtomicUsize,
    shutdown: &CancellationToken,
) {
    in_hand::show(queue);
    show_counters(queue, H::DEATHS);
    let name = broker.queue_name(queue);
    // Both connections: what is taken must be answered.
    let links = async || broker.link().await.zip(replies.link().await);
    while let Some(Some((link, _))) = shutdown.run_until_cancelled(links()).await {
        match Lane::open(link, replies, &name, queue, bounds).await {
            Ok(mut lane) => {
                consuming.fetch_add(1, Ordering::Relaxed);
                let ended = lane.run(&mut handler, shutdown).await;
                consuming.fetch_sub(1, Ordering::Relaxed);
                match ended {
                    Ok(()) => drop(timeout(CLOSE_WITHIN, lane.channel.close(200, "shutdown".into())).await),
                    Err(error) => log_consumer_lost(queue, &error),
                }
            }
            Err(error) => log_cannot_consume(queue, &error),
        }
        if !shutdown.is_cancelled() {
            tokio::time::sleep(REOPEN_AFTER).await;
        }
    }
}

pub(super) struct Lane {
    channel: Channel,
    consumer: Consumer,
    pub(super) replies: Replies,
    pub(super) queue: Queue,
    bounds: LaneBounds,
    /// Whether a message of this channel was left unacknowledged: an acknowledgement of several would include it.
    pub(super) has_left: bool,
    /// Taken from the consumer, but too much for the unit before.
    held: Option<(Delivery, Message)>,
    /// Keeps the connection while the lane uses it.
    _link: Arc<Link>,
}

/// Deliveries and, at the same places, their messages.
#[derive(Default)]
pub(super) struct Unit {
    pub(super) deliveries: Vec<Delivery>,
    pub(super) messages: Vec<Message>,
}

impl Lane {
    async fn open(
        link: Arc<Link>,
        replies: &Broker,
        name: &str,
        queue: Queue,
        bounds: LaneBounds,
    ) -> lapin::Result<Self> {
        let channel = link.connection.create_channel().await?;
        channel.basic_qos(bounds.prefetch, BasicQosOptions::default()).await?;
        let options = BasicConsumeOptions::default();
        let mut arguments = FieldTable::default();
        arguments.insert("x-priority".into(), AMQPValue::ShortShortInt(bounds.priority));
        let consumer = channel.basic_consume(name.into(), "".into(), options, arguments).await?;
        let replies = Replies::new(replies.clone(), queue);
        Ok(Self { channel, consumer, replies, queue, bounds, has_left: false, held: None, _link: link })
    }

    /// `Ok` at shutdown, `Err` when the channel is gone.
    async fn run<H: Handler>(&mut self, handler: &mut H, shutdown: &CancellationToken) -> lapin::Result<()> {
        while let Some(unit) = self.next_unit(handler, shutdown).await? {
            let _held = Held::new(self.queue);
            let verdicts = handler.handle(&unit.messages).await;
            self.settle(&unit, &verdicts).await?;
        }
        Ok(())
    }

    /// The next message, and with it what else is waiting, within the bounds. `None` at shutdown.
    async fn next_unit<H: Handler>(
        &mut self,
        handler: &H,
        shutdown: &CancellationToken,
    ) -> lapin::Result<Option<Unit>> {
        if shutdown.is_cancelled() {
            return Ok(None);
        }
        let Some(first) = self.first(shutdown).await? else { return Ok(None) };
        let (mut weight, mut bytes) = (handler.weigh(&first.1), first.1.body.len());
        let mut unit = Unit::default();
        unit.push(first);
        while unit.messages.len() < self.bounds.messages {
            let Some(Some(waiting)) = self.consumer.next().now_or_never() else { break };
            // A flood of forged messages must not hold up those before it.
            let Some(next) = self.receive(waiting?).await? else { break };
            weight += handler.weigh(&next.1);
            bytes += next.1.body.len();
            if weight > self.bounds.weight || bytes > self.bounds.bytes {
                self.held = Some(next);
                break;
            }
            unit.push(next);
        }
        Ok(Some(unit))
    }

    /// The first message of a unit, waited for. `None` at shutdown.
    async fn first(&mut self, shutdown: &CancellationToken) -> lapin::Result<Option<(Delivery, Message)>> {
        if let Some(held) = self.held.take() {
            return Ok(Some(held));
        }
        while let Some(delivery) = shutdown.run_until_cancelled(self.consumer.next()).await {
            let ended =
                || lapin::ErrorKind::InvalidChannelState(lapin::ChannelState::Closed, "consumer ended");
            if let Some(first) = self.receive(delivery.ok_or_else(ended)??).await? {
                return Ok(Some(first));
            }
        }
        Ok(None)
    }

    /// The message of a delivery; `None` for one that is forged, which is dead-lettered.
    async fn receive(&self, mut delivery: Delivery) -> lapin::Result<Option<(Delivery, Message)>> {
        let keys = self.replies.broker().keys();
        if let Some(message) = message_of(self.queue, keys, &mut delivery) {
            return Ok(Some((delivery, message)));
        }
        delivery.reject(BasicRejectOptions { requeue: false }).await?;
        Ok(None)
    }
}

impl Unit {
    fn push(&mut self, (delivery, message): (Delivery, Message)) {
        self.deliveries.push(delivery);
        self.messages.push(message);
    }
}

/// Shows what is counted of a queue's messages, before there is something to count.
pub(super) fn show_counters(queue: Queue, deaths: &[&'static str]) {
    let queue = queue.as_str();
    names::show(REDELIVERED, &[("queue", queue)]);
    for reason in deaths.iter().chain(&[FORGED]) {
        names::show(DEAD_LETTERED, &[("queue", queue), ("reason", reason)]);
    }
    names::show_by_queue(&[QUEUE_LAG, APPLY_DURATION], queue);
}

/// Takes the message out of what the broker delivered, unless it is forged: then it is counted as dead-lettered, which is
/// left to the caller.
pub(super) fn message_of(queue: Queue, keys: &MessageKeys, delivery: &mut Delivery) -> Option<Message> {
    if delivery.redelivered {
        metrics::counter!(REDELIVERED, "queue" => queue.as_str()).increment(1);
    }
    let body = std::mem::take(&mut delivery.data);
    let (message, verified) = Message::read(queue, keys, &delivery.properties, body, delivery.redelivered);
    if let Err(why) = verified {
        message.span().in_scope(|| log_forged(queue, why));
        metrics::counter!(DEAD_LETTERED, "queue" => queue.as_str(), "reason" => FORGED).increment(1);
        return None;
    }
    Some(message)
}

fn request_id(properties: &BasicProperties) -> Option<Uuid> {
    let ids = [properties.message_id(), properties.correlation_id()];
    ids.into_iter().flatten().find_map(|id| Uuid::try_parse(id.as_str()).ok())
}

fn message_id(properties: &BasicProperties) -> Option<String> {
    let id = properties.message_id().as_ref()?.as_str();
    (!id.trim().is_empty()).then(|| id.to_owned())
}

fn header(properties: &BasicProperties, name: &str) -> Option<String> {
    let headers = properties.headers().as_ref()?;
    let AMQPValue::LongString(text) = headers.inner().get(&ShortString::from(name))? else {
        return None;
    };
    std::str::from_utf8(text.as_bytes()).ok().map(str::to_owned)
}
