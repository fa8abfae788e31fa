//! A consumer of one queue: waits for the connections, opens a channel, verifies the messages, opens again after the channel was
//! lost, and closes. [`super::unit_consumer`] and [`super::turn_consumer`] decide which messages are handled together and when.

use super::connection::{Broker, Link};
use super::dead_letter_log::log_forged;
use super::mac::{FORGED, MessageKeys};
use super::message::Message;
use super::time_limit::{in_time, settle_delivery};
use super::topology::Queue;
use super::unacknowledged;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::metrics::{self as names, APPLY_DURATION, DEAD_LETTERED, QUEUE_LAG, REDELIVERED};
use crate::retry::RetryWaits;
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{Channel, Consumer};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// Maximum time that closing a channel may take: a broker that blocks publishers does not respond.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Waits before a consumer that was lost is opened again.
const REOPEN_WAITS: RetryWaits = RetryWaits::every(Duration::from_millis(250));
/// How often a consumer that receives nothing looks whether its channel is open.
const CHANNEL_CHECK: Duration = Duration::from_secs(5);
static LOST: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();
static REFUSED: LogLimit<{ Queue::ALL.len() }> = LogLimit::new();
/// The longest wait for other messages before those that were put off are tried again.
pub(super) const PUT_OFF_WAIT: Duration = Duration::from_millis(50);

/// What a consumer consumes, and until when.
#[derive(Clone, Copy, Debug)]
pub struct ConsumerSettings<'a> {
    /// The connection to consume on.
    pub broker: &'a Broker,
    /// The connection on which replies are sent. Consuming begins once it is open: messages that are consumed must be replied to.
    pub replies: &'a Broker,
    /// The queue.
    pub queue: Queue,
    /// Counts the consumers that are open now.
    pub consuming: &'a AtomicUsize,
    /// Ends consuming: what is under way is finished, and prefetched messages are requeued.
    pub shutdown: &'a CancellationToken,
}

/// Runs `consume` on a consumer with this prefetch and priority until `shutdown`, and again after each reconnect. An error of
/// `consume` says that the channel was lost.
pub(super) async fn run_consumer(
    settings: ConsumerSettings<'_>,
    (prefetch, priority): (u16, i8),
    dead_letter_reasons: &[&'static str],
    mut consume: impl AsyncFnMut(&mut OpenConsumer) -> lapin::Result<()>,
) {
    let ConsumerSettings { queue, consuming, shutdown, .. } = settings;
    unacknowledged::register(queue);
    register_counters(queue, dead_letter_reasons);
    let mut waits = REOPEN_WAITS;
    while let Some(Some(link)) = shutdown.run_until_cancelled(settings.link()).await {
        match in_time(OpenConsumer::open(link, settings, prefetch, priority)).await {
            Ok(mut open) => {
                consuming.fetch_add(1, Ordering::Relaxed);
                let ended = consume(&mut open).await;
                consuming.fetch_sub(1, Ordering::Relaxed);
                match ended {
                    Ok(()) => return open.close().await,
                    Err(error) => {
                        limited!(LOST[queue as usize], warn, queue = queue.as_str(), %error, "consumer lost; retrying in 250 ms");
                    }
                }
            }
            Err(error) => {
                limited!(REFUSED[queue as usize], warn, queue = queue.as_str(), %error, "starting a consumer failed; retrying in 250 ms");
            }
        }
        waits.wait_unless_shutdown(shutdown).await;
    }
}

impl ConsumerSettings<'_> {
    /// Waits for the connections. `None` once the program shuts down.
    async fn link(&self) -> Option<Arc<Link>> {
        let link = self.broker.link().await?;
        self.replies.link().await?;
        Some(link)
    }
}

/// A consumer on one channel.
pub(super) struct OpenConsumer {
    channel: Channel,
    consumer: Consumer,
    queue: Queue,
    keys: MessageKeys,
    priority: i8,
    shutdown: CancellationToken,
    /// Keeps the connection open while the consumer uses it.
    _link: Arc<Link>,
}

impl OpenConsumer {
    async fn open(
        link: Arc<Link>,
        settings: ConsumerSettings<'_>,
        prefetch: u16,
        priority: i8,
    ) -> lapin::Result<Self> {
        let ConsumerSettings { broker, queue, shutdown, .. } = settings;
        let channel = link.connection.create_channel().await?;
        let consumer = consume(&channel, broker.queue_name(queue).into(), 0, (prefetch, priority)).await?;
        let (keys, shutdown) = (broker.keys().clone(), shutdown.clone());
        Ok(Self { channel, consumer, queue, keys, priority, shutdown, _link: link })
    }

    pub(super) fn is_shutting_down(&self) -> bool {
        self.shutdown.is_cancelled()
    }

    /// The next message, with its MAC verified, if it arrives within that time; for [`Duration::ZERO`], if it has arrived. `None` as
    /// well at shutdown, and for a forged message, which is dead-lettered: a flood of them must not delay messages that were
    /// received before.
    pub(super) async fn next(&mut self, within: Duration) -> lapin::Result<Option<(Delivery, Message)>> {
        let next = self.shutdown.run_until_cancelled(self.consumer.next());
        let arrived = match within {
            Duration::ZERO => next.now_or_never(),
            within => timeout(within.min(CHANNEL_CHECK), next).await.ok(),
        };
        let ended = || lapin::ErrorKind::InvalidChannelState(lapin::ChannelState::Closed, "consumer ended");
        // The library may not end a consumer that began while its connection was lost.
        if arrived.is_none() && !self.channel.status().connected() {
            return Err(ended().into());
        }
        let Some(Some(delivery)) = arrived else { return Ok(None) };
        let mut delivery = delivery.ok_or_else(ended)??;
        if let Some(message) = verified_message(self.queue, &self.keys, &mut delivery) {
            return Ok(Some((delivery, message)));
        }
        settle_delivery(&delivery.acker, delivery.reject(BasicRejectOptions { requeue: false })).await?;
        Ok(None)
    }

    /// Replaces the consumer by one with a prefetch of its own; the messages of the one before stay unacknowledged. All of its
    /// prefetch must be unacknowledged, so that no message of it is on its way. `number` is that of its last delivery. When the channel
    /// ends, the broker requeues the messages of its consumers, up to 32, in the order of their tags.
    pub(super) async fn renew(&mut self, number: u64, prefetch: u16) -> lapin::Result<()> {
        let (before, queue) = (self.consumer.tag(), self.consumer.queue());
        let renewing = async {
            self.channel.basic_cancel(before, BasicCancelOptions::default()).await?;
            consume(&self.channel, queue, number, (prefetch, self.priority)).await
        };
        self.consumer = in_time(renewing).await?;
        Ok(())
    }

    /// Closes the channel: the broker requeues unacknowledged messages.
    async fn close(self) {
        drop(timeout(CLOSE_TIMEOUT, self.channel.close(200, "shutdown".into())).await);
    }
}

/// A consumer whose tag is a number.
async fn consume(
    channel: &Channel,
    queue: ShortString,
    number: u64,
    (prefetch, priority): (u16, i8),
) -> lapin::Result<Consumer> {
    channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
    let (tag, options) = (format!("{number:020}"), BasicConsumeOptions::default());
    let mut arguments = FieldTable::default();
    arguments.insert("x-priority".into(), AMQPValue::ShortShortInt(priority));
    channel.basic_consume(queue, tag.into(), options, arguments).await
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
    let body = std::mem::take(&mut delivery.data);
    let (message, verified) =
        Message::from_delivery(queue, keys, &delivery.properties, body, delivery.redelivered);
    if let Err(why) = verified {
        message.span().in_scope(|| log_forged(queue, why));
        metrics::counter!(DEAD_LETTERED, "queue" => queue.as_str(), "reason" => FORGED).increment(1);
        return None;
    }
    Some(message)
}
