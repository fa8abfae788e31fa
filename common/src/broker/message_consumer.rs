//! A consumer whose messages are handled concurrently and acknowledged one by one.

use super::connection::{Broker, Link};
use super::consumer::{Consumption, OpenConsumer, UnitBounds, UnitProcessor, run_consumer};
use super::message::Message;
use super::topology::Queue;
use super::unacknowledged::UnacknowledgedGuard;
use crate::metrics::DEAD_LETTERED;
use lapin::Acker;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicRejectOptions};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A message and the handle that acknowledges it.
#[derive(Debug)]
pub struct Received {
    /// The message, whose MAC is valid.
    pub message: Message,
    /// Acknowledges, dead-letters or requeues it.
    pub ack: AckHandle,
}

/// Acknowledges a message. When the handle is dropped the message stays unacknowledged, and the broker redelivers it once
/// the channel closes.
#[derive(Debug)]
pub struct AckHandle {
    acker: Acker,
    queue: Queue,
    /// Counts the message as unacknowledged.
    _held: UnacknowledgedGuard,
    /// Keeps the connection open while the message is unacknowledged.
    _link: Arc<Link>,
}

impl AckHandle {
    /// Acknowledges the message. If the channel was lost meanwhile, the message is redelivered.
    pub async fn acknowledge(self) {
        drop(self.acker.ack(BasicAckOptions::default()).await);
    }

    /// Rejects the message, which goes to the dead-letter queue. `reason` is one of a fixed set.
    pub async fn dead_letter(self, reason: &'static str) {
        metrics::counter!(DEAD_LETTERED, "queue" => self.queue.as_str(), "reason" => reason).increment(1);
        drop(self.acker.reject(BasicRejectOptions { requeue: false }).await);
    }

    /// Requeues the message for any consumer.
    pub async fn requeue(self) {
        drop(self.acker.reject(BasicRejectOptions { requeue: true }).await);
    }
}

/// Handles the messages of a consumer.
pub trait MessageHandler: Send {
    /// The reasons that it passes to [`AckHandle::dead_letter`].
    const DEAD_LETTER_REASONS: &'static [&'static str];

    /// Handles the messages that were waiting, up to the bound, or passes them on. The next unit is received when it returns.
    fn handle_messages(&mut self, unit: Vec<Received>) -> impl Future<Output = ()> + Send;

    /// Called when consuming begins and ends.
    fn set_consuming(&mut self, is_consuming: bool);
}

/// Consumes `queue` until `shutdown`, and again after each reconnect of `broker`. At most `prefetch` messages are
/// unacknowledged, and at most `unit` are passed to the handler at once. At the end prefetched messages that were not handled
/// are requeued. Returns the open consumer, if there is one: messages can be acknowledged until it is closed.
pub async fn run_message_consumer<I: MessageHandler>(
    broker: &Broker,
    queue: Queue,
    (prefetch, unit): (u16, usize),
    handler: &mut I,
    shutdown: &CancellationToken,
) -> Option<OpenConsumer> {
    let bounds = UnitBounds { prefetch, messages: unit, weight: usize::MAX, bytes: usize::MAX, priority: 0 };
    let consumption = Consumption { broker, also_needed: None, queue, bounds };
    let mut open = run_consumer(consumption, &mut HandOver { handler, queue }, shutdown).await?;
    open.drain().await;
    Some(open)
}

/// Hands messages over to a handler, which acknowledges them later.
struct HandOver<'a, I> {
    handler: &'a mut I,
    queue: Queue,
}

impl<I: MessageHandler> UnitProcessor for HandOver<'_, I> {
    const DEAD_LETTER_REASONS: &'static [&'static str] = I::DEAD_LETTER_REASONS;
    type Unit = Vec<Received>;

    fn opened(&mut self) {
        self.handler.set_consuming(true);
    }

    fn ended(&mut self) {
        self.handler.set_consuming(false);
    }

    fn weigh(&self, _message: &Message) -> usize {
        0
    }

    fn add(&self, unit: &mut Vec<Received>, link: &Arc<Link>, delivery: Delivery, message: Message) {
        let (queue, _held, _link) = (self.queue, UnacknowledgedGuard::new(self.queue), Arc::clone(link));
        unit.push(Received { message, ack: AckHandle { acker: delivery.acker, queue, _held, _link } });
    }

    async fn process(&mut self, unit: Vec<Received>) -> lapin::Result<()> {
        self.handler.handle_messages(unit).await;
        Ok(())
    }
}
