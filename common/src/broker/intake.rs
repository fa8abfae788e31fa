//! Consuming messages that are handled side by side, each concluded by itself.

use super::connection::{Broker, Link};
use super::consumer_log::{log_cannot_consume, log_consumer_lost};
use super::in_hand::{self, Held};
use super::lane::{Message, message_of, show_counters};
use super::mac::MessageKeys;
use super::topology::Queue;
use crate::metrics::DEAD_LETTERED;
use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicQosOptions, BasicRejectOptions,
};
use lapin::types::FieldTable;
use lapin::{Acker, Channel, Consumer};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// Longest that ending a consumer, or closing a channel, may take; a broker that blocks publishers doesn't answer.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);
/// Wait before an intake is opened again.
const REOPEN_AFTER: Duration = Duration::from_millis(250);

/// A message, and what concludes it.
#[derive(Debug)]
pub struct Received {
    /// The message.
    pub message: Message,
    /// Its receipt.
    pub receipt: Receipt,
}

/// Concludes a message. One that is dropped leaves the message with the broker, which hands it out again once the
/// channel is gone.
#[derive(Debug)]
pub struct Receipt {
    acker: Acker,
    queue: Queue,
    /// It is in hand until then.
    _held: Held,
    /// Keeps the connection while the message is open.
    _link: Arc<Link>,
}

impl Receipt {
    /// Handled: the queue forgets it. When the channel is gone meanwhile, it comes again.
    pub async fn done(self) {
        drop(self.acker.ack(BasicAckOptions::default()).await);
    }

    /// Never to be handled: to the dead-letter queue. `reason` is a fixed word.
    pub async fn dead(self, reason: &'static str) {
        metrics::counter!(DEAD_LETTERED, "queue" => self.queue.as_str(), "reason" => reason).increment(1);
        drop(self.acker.reject(BasicRejectOptions { requeue: false }).await);
    }

    /// Not handled here: back to the queue, for whoever takes it next.
    pub async fn back(self) {
        drop(self.acker.reject(BasicRejectOptions { requeue: true }).await);
    }
}

/// Takes units of messages.
pub trait Intake: Send {
    /// The reasons that it gives [`Receipt::dead`].
    const DEATHS: &'static [&'static str];

    /// Takes a unit: what was waiting, up to the bound. Handles it or hands it on; the next unit comes when it returns.
    fn take(&mut self, unit: Vec<Received>) -> impl Future<Output = ()> + Send;

    /// Told when consuming begins and ends.
    fn consuming(&mut self, is_consuming: bool);
}

/// Consumes `queue` until `shutdown`, on one connection of `broker` after the other. At most `prefetch` messages are
/// open, at most `unit` are taken at once. At the end what was handed out and isn't taken goes back, for others. Gives
/// the channel, if there is one: receipts work until it is closed.
pub async fn run_intake<I: Intake>(
    broker: &Broker,
    queue: Queue,
    (prefetch, unit): (u16, usize),
    intake: &mut I,
    shutdown: &CancellationToken,
) -> Option<OpenIntake> {
    in_hand::show(queue);
    show_counters(queue, I::DEATHS);
    while let Some(Some(link)) = shutdown.run_until_cancelled(broker.link()).await {
        match OpenIntake::new(link, broker, queue, prefetch).await {
            Ok(mut open) => {
                intake.consuming(true);
                let ended = open.run(unit, intake, shutdown).await;
                intake.consuming(false);
                match ended {
                    Ok(()) => {
                        open.stop().await;
                        return Some(open);
                    }
                    Err(error) => log_consumer_lost(queue, &error),
                }
            }
            Err(error) => log_cannot_consume(queue, &error),
        }
        if !shutdown.is_cancelled() {
            sleep(REOPEN_AFTER).await;
        }
    }
    None
}

/// A consumer on one connection.
pub struct OpenIntake {
    channel: Channel,
    consumer: Consumer,
    queue: Queue,
    keys: MessageKeys,
    link: Arc<Link>,
}

impl std::fmt::Debug for OpenIntake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenIntake").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl OpenIntake {
    async fn new(link: Arc<Link>, broker: &Broker, queue: Queue, prefetch: u16) -> lapin::Result<Self> {
        let channel = link.connection.create_channel().await?;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let (name, options) = (broker.queue_name(queue).into(), BasicConsumeOptions::default());
        let consumer = channel.basic_consume(name, "".into(), options, FieldTable::default()).await?;
        Ok(Self { channel, consumer, queue, keys: broker.keys().clone(), link })
    }

    /// `Ok` at shutdown, `Err` when the channel is gone.
    async fn run<I: Intake>(
        &mut self,
        unit: usize,
        intake: &mut I,
        shutdown: &CancellationToken,
    ) -> lapin::Result<()> {
        while let Some(first) = shutdown.run_until_cancelled(self.consumer.next()).await {
            let ended =
                || lapin::ErrorKind::InvalidChannelState(lapin::ChannelState::Closed, "consumer ended");
            let Some(first) = self.receive(first.ok_or_else(ended)??).await? else { continue };
            let mut received = vec![first];
            while received.len() < unit {
                let Some(Some(next)) = self.consumer.next().now_or_never() else { break };
                // A flood of forged messages must not hold up those before it.
                let Some(next) = self.receive(next?).await? else { break };
                received.push(next);
            }
            intake.take(received).await;
        }
        Ok(())
    }

    /// Has the broker hand out no more, and gives back what it has.
    async fn stop(&mut self) {
        let cancel = self.channel.basic_cancel(self.consumer.tag(), BasicCancelOptions::default());
        if !matches!(timeout(CLOSE_WITHIN, cancel).await, Ok(Ok(()))) {
            return;
        }
        while let Ok(Some(Ok(delivery))) = timeout(CLOSE_WITHIN, self.consumer.next()).await {
            drop(delivery.acker.reject(BasicRejectOptions { requeue: true }).await);
        }
    }

    /// The message of a delivery; `None` for one that is forged, which is dead-lettered.
    async fn receive(&self, mut delivery: Delivery) -> lapin::Result<Option<Received>> {
        let Some(message) = message_of(self.queue, &self.keys, &mut delivery) else {
            delivery.acker.reject(BasicRejectOptions { requeue: false }).await?;
            return Ok(None);
        };
        let _held = Held::new(self.queue);
        let receipt =
            Receipt { acker: delivery.acker, queue: self.queue, _held, _link: Arc::clone(&self.link) };
        Ok(Some(Received { message, receipt }))
    }

    /// Closes the channel: what isn't concluded goes back to the queue.
    pub async fn close(self) {
        drop(timeout(CLOSE_WITHIN, self.channel.close(200, "shutdown".into())).await);
    }
}
