//! A consumer that handles the waiting messages, up to a bound, as one unit of work. [`super::settle`] sends the replies and
//! acknowledges the messages.

use super::connection::{Broker, Link};
use super::consumer::{ConsumerSettings, GroupBounds, GroupProcessor, run_consumer};
use super::message::Message;
use super::settle::{MessageOutcome, Settler, Unit};
use super::topology::Queue;
use super::unacknowledged::UnacknowledgedGuard;
use lapin::message::Delivery;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio_util::sync::CancellationToken;

/// Handles units of messages.
pub trait UnitHandler: Send {
    /// The reasons of its [`MessageOutcome::DeadLetter`].
    const DEAD_LETTER_REASONS: &'static [&'static str];

    /// The weight of a message, counted against [`GroupBounds::weight`].
    fn weigh(&self, message: &Message) -> usize;

    /// Handles a unit and returns an outcome for each message, in their order. Returns only after everything that must be
    /// durable is, because the messages are acknowledged then. It is never canceled.
    fn handle(&mut self, unit: &[Message]) -> impl Future<Output = Vec<MessageOutcome>> + Send;
}

/// Consumes `queue` until `shutdown`, and again after each reconnect of `broker`. Replies are sent on
/// `reply_connection`.
///
/// `consuming` counts the consumers that are open now. At `shutdown` the unit under way is finished, and prefetched messages
/// are requeued.
pub async fn run_unit_consumer<H: UnitHandler>(
    broker: &Broker, reply_connection: &Broker, queue: Queue, bounds: GroupBounds, handler: H, consuming: &AtomicUsize,
    shutdown: &CancellationToken,
) {
    // Both connections are needed: messages that are consumed must be replied to.
    let settings = ConsumerSettings { broker, reply_connection: Some(reply_connection), queue, bounds };
    let settler = Settler::new(reply_connection, queue);
    let mut processor = SettlingProcessor { handler, queue, settler, consuming };
    if let Some(open) = run_consumer(settings, &mut processor, shutdown).await {
        open.close().await;
    }
}

/// Passes units to a handler and settles their messages by its outcomes.
struct SettlingProcessor<'a, H> {
    handler: H,
    queue: Queue,
    settler: Settler,
    consuming: &'a AtomicUsize,
}

impl<H: UnitHandler> GroupProcessor for SettlingProcessor<'_, H> {
    const DEAD_LETTER_REASONS: &'static [&'static str] = H::DEAD_LETTER_REASONS;
    type Group = Unit;

    fn opened(&mut self) {
        self.consuming.fetch_add(1, Ordering::Relaxed);
    }

    fn ended(&mut self) {
        self.consuming.fetch_sub(1, Ordering::Relaxed);
    }

    fn weigh(&self, message: &Message) -> usize {
        self.handler.weigh(message)
    }

    fn add(&self, unit: &mut Unit, _link: &Arc<Link>, delivery: Delivery, message: Message) {
        unit.deliveries.push(delivery);
        unit.messages.push(message);
    }

    async fn process(&mut self, unit: Unit) -> lapin::Result<Vec<(Delivery, Message)>> {
        let _unacknowledged = UnacknowledgedGuard::new(self.queue);
        let outcomes = self.handler.handle(&unit.messages).await;
        self.settler.settle(&unit, &outcomes).await?;
        let settled = unit.deliveries.into_iter().zip(unit.messages).zip(outcomes);
        let put_off = settled.filter(|(_, outcome)| *outcome == MessageOutcome::PutOff);
        Ok(put_off.map(|(message, _)| message).collect())
    }
}
