//! A consumer whose messages are handled concurrently and acknowledged one by one.

use super::connection::{Broker, Link};
use super::consumer::{ConsumerSettings, GroupBounds, GroupProcessor, OpenConsumer, run_consumer};
use super::message::Message;
use super::time_limit::settle_delivery;
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
    _unacknowledged: UnacknowledgedGuard,
    /// Keeps the connection open while the message is unacknowledged.
    _link: Arc<Link>,
}

impl AckHandle {
    /// Acknowledges the message. If the channel was lost meanwhile, the message is redelivered.
    pub async fn acknowledge(self) {
        drop(settle_delivery(&self.acker, self.acker.ack(BasicAckOptions::default())).await);
    }

    /// Rejects the message, which goes to the dead-letter queue. `reason` is one of a fixed set.
    pub async fn dead_letter(self, reason: &'static str) {
        metrics::counter!(DEAD_LETTERED, "queue" => self.queue.as_str(), "reason" => reason).increment(1);
        drop(settle_delivery(&self.acker, self.acker.reject(BasicRejectOptions { requeue: false })).await);
    }

    /// Requeues the message for any consumer.
    pub async fn requeue(self) {
        drop(settle_delivery(&self.acker, self.acker.reject(BasicRejectOptions { requeue: true })).await);
    }
}

/// Handles the messages of a consumer.
pub trait MessageHandler: Send {
    /// The reasons that it passes to [`AckHandle::dead_letter`].
    const DEAD_LETTER_REASONS: &'static [&'static str];

    /// Handles the messages that were waiting, up to the bound, or passes them on. The next ones are received when it returns.
    fn handle_messages(&mut self, messages: Vec<Received>) -> impl Future<Output = ()> + Send;

    /// Called when consuming begins and ends.
    fn set_consuming(&mut self, is_consuming: bool);
}

/// Consumes `queue` until `shutdown`, and again after each reconnect of `broker`. At most `prefetch` messages are
/// unacknowledged, and at most `at_once` are passed to the handler at once. At the end prefetched messages that were not handled
/// are requeued. Returns the open consumer, if there is one: messages can be acknowledged until it is closed.
pub async fn run_message_consumer<H: MessageHandler>(
    broker: &Broker,
    queue: Queue,
    prefetch: u16,
    at_once: usize,
    handler: &mut H,
    shutdown: &CancellationToken,
) -> Option<OpenConsumer> {
    let bounds =
        GroupBounds { prefetch, messages: at_once, weight: usize::MAX, bytes: usize::MAX, priority: 0 };
    let settings = ConsumerSettings { broker, reply_connection: None, queue, bounds };
    let mut open = run_consumer(settings, &mut HandingOver { handler, queue }, shutdown).await?;
    open.drain().await;
    Some(open)
}

/// Hands messages over to a handler, which acknowledges them later.
struct HandingOver<'a, H> {
    handler: &'a mut H,
    queue: Queue,
}

impl<H: MessageHandler> GroupProcessor for HandingOver<'_, H> {
    const DEAD_LETTER_REASONS: &'static [&'static str] = H::DEAD_LETTER_REASONS;
    type Group = Vec<Received>;

    fn opened(&mut self) {
        self.handler.set_consuming(true);
    }

    fn ended(&mut self) {
        self.handler.set_consuming(false);
    }

    fn weigh(&self, _message: &Message) -> usize {
        0
    }

    fn add(&self, group: &mut Vec<Received>, link: &Arc<Link>, delivery: Delivery, message: Message) {
        let (queue, _unacknowledged, _link) =
            (self.queue, UnacknowledgedGuard::new(self.queue), Arc::clone(link));
        group.push(Received {
            message,
            ack: AckHandle { acker: delivery.acker, queue, _unacknowledged, _link },
        });
    }

    async fn process(&mut self, group: Vec<Received>) -> lapin::Result<()> {
        self.handler.handle_messages(group).await;
        Ok(())
    }
}
