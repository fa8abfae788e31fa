//! A consumer of one queue: waits for the connection, opens a channel with a prefetch, handles the messages that wait, up to a
//! bound, as one unit of work, opens again after the channel was lost, and drains or closes. [`super::settle`] sends the replies,
//! [`super::acknowledge`] the acknowledgements.

use super::acknowledge::Acknowledgements;
use super::connection::{Broker, Link};
use super::consumer_log::{log_cannot_consume, log_consumer_lost};
use super::dead_letter_log::log_forged;
use super::mac::{FORGED, MessageKeys};
use super::message::Message;
use super::settle::{MessageOutcome, Settler, Unit, outcome_of};
use super::time_limit::in_time;
use super::topology::Queue;
use super::unacknowledged::{self, UnacknowledgedGuard};
use crate::health;
use crate::metrics::{self as names, APPLY_DURATION, DEAD_LETTERED, QUEUE_LAG, REDELIVERED};
use futures_util::stream::SelectAll;
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Consumer};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

/// Maximum time that canceling a consumer or closing a channel may take: a broker that blocks publishers does not respond.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// The wait before a consumer that was lost is opened again.
const REOPEN_WAIT: Duration = Duration::from_millis(250);
/// How often a consumer that receives nothing looks whether its channel is open.
const CHANNEL_CHECK: Duration = Duration::from_secs(5);
/// The longest wait for other messages before those that were put off are tried again.
const PUT_OFF_WAIT: Duration = Duration::from_millis(50);
/// Messages that are delivered in addition to the prefetch while half of it is put off. Otherwise the messages of a tenant whose
/// rows another transaction has locked would keep those of all others in the queue. What a tenant may have waiting is bounded.
const MORE_PREFETCH: u16 = 1_024;

/// How much a consumer receives ahead and handles at once.
#[derive(Clone, Copy, Debug)]
pub struct UnitBounds {
    /// Prefetch: messages that the broker delivers ahead of their acknowledgement.
    pub prefetch: u16,
    /// Maximum number of messages of a unit.
    pub messages: usize,
    /// Maximum weight of a unit; a single message may be heavier.
    pub weight: usize,
    /// Maximum number of bytes of a unit's bodies; a single message may be larger.
    pub bytes: usize,
    /// Consumer priority: the broker delivers to this consumer only while the prefetch of all consumers of a higher
    /// priority is used up.
    pub priority: i8,
}

/// Handles units of messages.
pub trait UnitHandler: Send {
    /// The reasons of its [`MessageOutcome::DeadLetter`].
    const DEAD_LETTER_REASONS: &'static [&'static str];

    /// The weight of a request that has a message of its own, counted against [`UnitBounds::weight`].
    fn weigh(&self, request: &Message) -> usize;

    /// Handles a unit and returns an outcome for each request, in their order. Returns only after everything that must be
    /// durable is, because the messages are acknowledged then. It is never canceled.
    fn handle(&mut self, unit: &[&Message]) -> impl Future<Output = Vec<MessageOutcome>> + Send;
}

/// Consumes `queue` until `shutdown`, and again after each reconnect of `broker`. Replies are sent on
/// `reply_connection`.
///
/// `consuming` counts the consumers that are open now. At `shutdown` the unit under way is finished, and prefetched messages
/// are requeued.
pub async fn run_unit_consumer<H: UnitHandler>(
    broker: &Broker, reply_connection: &Broker, queue: Queue, bounds: UnitBounds, mut handler: H,
    consuming: &AtomicUsize, shutdown: &CancellationToken,
) {
    unacknowledged::register(queue);
    register_counters(queue, H::DEAD_LETTER_REASONS);
    let mut settler = Settler::new(reply_connection, queue);
    // Both connections are needed: messages that are consumed must be replied to.
    let link = async || {
        let link = broker.link().await?;
        reply_connection.link().await.map(|_| link)
    };
    while let Some(Some(link)) = shutdown.run_until_cancelled(link()).await {
        match in_time(OpenConsumer::open(link, broker, queue, bounds)).await {
            Ok(mut open) => {
                consuming.fetch_add(1, Ordering::Relaxed);
                let ended = health::watch(open.run(&mut handler, &mut settler, shutdown)).await;
                consuming.fetch_sub(1, Ordering::Relaxed);
                match ended {
                    Ok(()) => return open.close().await,
                    Err(error) => log_consumer_lost(queue, &error),
                }
            }
            Err(error) => log_cannot_consume(queue, &error),
        }
        shutdown.run_until_cancelled(sleep(REOPEN_WAIT)).await;
    }
}

/// A consumer on one channel.
struct OpenConsumer {
    channel: Channel,
    /// The consumer, and perhaps a second one, see [`MORE_PREFETCH`].
    consumers: SelectAll<Consumer>,
    /// The tag of the second consumer.
    second: Option<ShortString>,
    queue: Queue,
    queue_name: ShortString,
    keys: MessageKeys,
    bounds: UnitBounds,
    acknowledgements: Acknowledgements,
    /// A message that exceeded the bounds of the previous unit, and begins the next one.
    carried_over: Option<(Delivery, Message)>,
    /// Messages that are tried again in turn. The prefetch bounds them.
    put_off: VecDeque<(Delivery, Message)>,
    /// Keeps the connection open while the consumer uses it.
    _link: Arc<Link>,
}

impl OpenConsumer {
    async fn open(link: Arc<Link>, broker: &Broker, queue: Queue, bounds: UnitBounds) -> lapin::Result<Self> {
        let channel = link.connection.create_channel().await?;
        let acknowledgements = Acknowledgements::new(channel.clone(), bounds.prefetch);
        let mut open = Self {
            channel,
            consumers: SelectAll::new(),
            second: None,
            queue,
            queue_name: broker.queue_name(queue).into(),
            keys: broker.keys().clone(),
            bounds,
            acknowledgements,
            carried_over: None,
            put_off: VecDeque::new(),
            _link: link,
        };
        open.consume(bounds.prefetch).await?;
        Ok(open)
    }

    /// Begins to consume with so much prefetch, which the broker counts for each consumer, and returns the consumer's tag.
    async fn consume(&mut self, prefetch: u16) -> lapin::Result<ShortString> {
        self.channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let mut arguments = FieldTable::default();
        arguments.insert("x-priority".into(), AMQPValue::ShortShortInt(self.bounds.priority));
        let (queue, options) = (self.queue_name.clone(), BasicConsumeOptions::default());
        let consumer = self.channel.basic_consume(queue, "".into(), options, arguments).await?;
        let tag = consumer.tag();
        self.consumers.push(consumer);
        Ok(tag)
    }

    /// Begins the second consumer when half of the prefetch is put off, and ends it when nothing is. What it has received by then is
    /// handled all the same.
    async fn adapt_prefetch(&mut self) -> lapin::Result<()> {
        if self.put_off.is_empty() {
            if let Some(second) = self.second.take() {
                in_time(self.channel.basic_cancel(second, BasicCancelOptions::default())).await?;
            }
        } else if self.second.is_none() && self.put_off.len() * 2 >= usize::from(self.bounds.prefetch) {
            self.second = Some(in_time(self.consume(MORE_PREFETCH)).await?);
        }
        Ok(())
    }

    /// `Ok` at shutdown, `Err` when the channel is gone.
    async fn run<H: UnitHandler>(
        &mut self, handler: &mut H, settler: &mut Settler, shutdown: &CancellationToken,
    ) -> lapin::Result<()> {
        while let Some(mut unit) = self.next_unit(handler, settler, shutdown).await? {
            health::beat();
            let unacknowledged = UnacknowledgedGuard::new(self.queue);
            let requests: Vec<&Message> = unit.messages.iter().flat_map(Message::requests).collect();
            let mut outcomes = handler.handle(&requests).await.into_iter();
            let outcomes: Vec<_> = unit.messages.iter_mut().map(|message| outcome_of(message, &mut outcomes)).collect();
            settler.settle(&mut self.acknowledgements, &unit, &outcomes, unacknowledged).await?;
            let settled = unit.deliveries.into_iter().zip(unit.messages).zip(outcomes);
            let put_off = settled.filter(|(_, outcome)| *outcome == MessageOutcome::PutOff);
            self.put_off.extend(put_off.map(|(message, _)| message));
            self.adapt_prefetch().await?;
        }
        settler.acknowledge(&mut self.acknowledgements).await
    }

    /// Waits for the next message and adds what else is waiting, within the bounds. `None` at shutdown.
    async fn next_unit<H: UnitHandler>(
        &mut self, handler: &H, settler: &mut Settler, shutdown: &CancellationToken,
    ) -> lapin::Result<Option<Unit>> {
        if shutdown.is_cancelled() {
            return Ok(None);
        }
        // Otherwise tags do not follow each other: two consumers do not pass on messages in the order of their delivery.
        let all_before = self.put_off.is_empty() && self.consumers.len() == 1;
        let first = self.first(settler, shutdown).await?;
        if self.put_off.is_empty() && first.is_none() {
            return Ok(None);
        }
        let mut unit = Unit { all_before, ..Unit::default() };
        let weigh = |message: &Message| match message.parts.as_slice() {
            [] => handler.weigh(message),
            parts => parts.iter().map(|part| part.weight).sum(),
        };
        let size = |message: &Message| message.requests().map(|request| request.body.len()).sum::<usize>();
        for (delivery, message) in self.put_off.drain(..self.put_off.len().min(self.bounds.messages)) {
            unit.add(delivery, message);
        }
        let Some((delivery, message)) = first else { return Ok(Some(unit)) };
        let (mut weight, mut bytes) = (weigh(&message), size(&message));
        unit.add(delivery, message);
        for _ in 1..self.bounds.messages {
            let Some(Some(waiting)) = self.consumers.next().now_or_never() else { break };
            // A forged message ends the unit (`None`): a flood of them must not delay the messages that are already in it.
            let Some((delivery, message)) = self.receive(waiting?)? else { break };
            weight += weigh(&message);
            bytes += size(&message);
            if weight > self.bounds.weight || bytes > self.bounds.bytes {
                self.carried_over = Some((delivery, message));
                break;
            }
            unit.add(delivery, message);
        }
        Ok(Some(unit))
    }

    /// The first message of a unit besides those that were put off, waited for. `None` at shutdown, and if what was put off has
    /// waited long enough.
    async fn first(
        &mut self, settler: &mut Settler, shutdown: &CancellationToken,
    ) -> lapin::Result<Option<(Delivery, Message)>> {
        if let Some(carried_over) = self.carried_over.take() {
            return Ok(Some(carried_over));
        }
        let ended = || lapin::ErrorKind::InvalidChannelState(lapin::ChannelState::Closed, "consumer ended");
        let next = async |consumers: &mut SelectAll<Consumer>, until: Instant| {
            health::beat();
            timeout_at(until, consumers.next()).await
        };
        loop {
            let within = if self.put_off.is_empty() { CHANNEL_CHECK } else { PUT_OFF_WAIT };
            let acknowledge_at = self.acknowledgements.wait_until();
            let until = acknowledge_at.unwrap_or_else(|| Instant::now() + within);
            match shutdown.run_until_cancelled(next(&mut self.consumers, until)).await {
                None => return Ok(None),
                Some(Ok(delivery)) => {
                    if let Some(first) = self.receive(delivery.ok_or_else(ended)??)? {
                        return Ok(Some(first));
                    }
                }
                Some(Err(_)) if acknowledge_at.is_some() => settler.acknowledge(&mut self.acknowledgements).await?,
                // The library may not end a consumer that began while its connection was lost.
                Some(Err(_)) if !self.channel.status().connected() => return Err(ended().into()),
                Some(Err(_)) if self.put_off.is_empty() => {}
                Some(Err(_)) => return Ok(None),
            }
        }
    }

    /// The verified message of a delivery; `None` for a forged one, which is dead-lettered.
    fn receive(&self, mut delivery: Delivery) -> lapin::Result<Option<(Delivery, Message)>> {
        if let Some(message) = verified_message(self.queue, &self.keys, &mut delivery) {
            return Ok(Some((delivery, message)));
        }
        self.acknowledgements.reject(delivery.delivery_tag)?;
        Ok(None)
    }

    /// Closes the channel: the broker requeues unacknowledged messages.
    async fn close(self) {
        drop(timeout(CLOSE_TIMEOUT, self.channel.close(200, "shutdown".into())).await);
    }
}

/// Exports the counters of a queue's messages at 0, before there is something to count.
fn register_counters(queue: Queue, reasons: &[&'static str]) {
    let queue = queue.as_str();
    names::register_counter(REDELIVERED, &[("queue", queue)]);
    for reason in reasons.iter().chain(&[FORGED]) {
        names::register_counter(DEAD_LETTERED, &[("queue", queue), ("reason", reason)]);
    }
    names::register_histograms_by_queue(&[QUEUE_LAG, APPLY_DURATION], queue);
}

/// Reads and verifies the message of a delivery. A forged one is logged and counted as dead-lettered, and the caller must
/// reject it.
fn verified_message(queue: Queue, keys: &MessageKeys, delivery: &mut Delivery) -> Option<Message> {
    if delivery.redelivered {
        metrics::counter!(REDELIVERED, "queue" => queue.as_str()).increment(1);
    }
    let (body, properties) = (std::mem::take(&mut delivery.data), std::mem::take(&mut delivery.properties));
    let (message, verified) = Message::from_delivery(queue, keys, properties, body);
    if let Err(why) = verified {
        message.span().in_scope(|| log_forged(queue, why));
        metrics::counter!(DEAD_LETTERED, "queue" => queue.as_str(), "reason" => FORGED).increment(1);
        return None;
    }
    Some(message)
}
