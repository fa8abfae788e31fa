//! A consumer that handles the waiting messages, up to a bound, as one unit of work. [`super::settle`] sends the replies and
//! acknowledges the messages.

use super::consumer::{ConsumerSettings, OpenConsumer, PUT_OFF_WAIT, run_consumer};
use super::message::Message;
use super::settle::{MessageOutcome, Settler, Unit};
use super::unacknowledged::UnacknowledgedGuard;
use lapin::message::Delivery;
use std::time::Duration;

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
pub trait UnitHandler {
    /// The reasons of its [`MessageOutcome::DeadLetter`].
    const DEAD_LETTER_REASONS: &'static [&'static str];

    /// The weight of a message, counted against [`UnitBounds::weight`].
    fn weigh(&self, message: &Message) -> usize;

    /// Handles a unit and returns an outcome for each message, in their order. Returns only after everything that must be
    /// durable is, because the messages are acknowledged then. It is never canceled.
    fn handle(&mut self, unit: &[Message]) -> impl Future<Output = Vec<MessageOutcome>>;
}

/// Consumes until the shutdown of `settings`, and again after each reconnect of its broker.
pub async fn run_unit_consumer<H: UnitHandler>(
    settings: ConsumerSettings<'_>,
    bounds: UnitBounds,
    mut handler: H,
) {
    let mut settler = Settler::new(settings.replies, settings.queue);
    let consume = async |open: &mut OpenConsumer| {
        let mut left = LeftOver::default();
        while let Some(unit) = left.next_unit(open, bounds, |message| handler.weigh(message)).await? {
            let _unacknowledged = UnacknowledgedGuard::new(settings.queue);
            let outcomes = handler.handle(&unit.messages).await;
            left.put_off = settler.settle(unit, &outcomes).await?;
        }
        Ok(())
    };
    run_consumer(settings, (bounds.prefetch, bounds.priority), H::DEAD_LETTER_REASONS, consume).await;
}

/// Messages that begin the next unit.
#[derive(Default)]
struct LeftOver {
    /// One that exceeded the bounds of the unit before.
    carried_over: Option<(Delivery, Message)>,
    /// These are in the next unit whatever its bounds. The prefetch bounds them.
    put_off: Vec<(Delivery, Message)>,
}

impl LeftOver {
    /// Waits for the next message and adds what else is waiting, within the bounds. `None` at shutdown.
    async fn next_unit(
        &mut self,
        open: &mut OpenConsumer,
        bounds: UnitBounds,
        weigh: impl Fn(&Message) -> usize,
    ) -> lapin::Result<Option<Unit>> {
        let within = if self.put_off.is_empty() { Duration::MAX } else { PUT_OFF_WAIT };
        let first = loop {
            if open.is_shutting_down() {
                return Ok(None);
            }
            let first = match self.carried_over.take() {
                Some(carried_over) => Some(carried_over),
                None => open.next(within).await?,
            };
            if first.is_some() || !self.put_off.is_empty() {
                break first;
            }
        };
        let mut unit = Unit::default();
        self.put_off.drain(..).for_each(|put_off| unit.add(put_off));
        let Some(first) = first else { return Ok(Some(unit)) };
        let (mut weight, mut bytes) = (weigh(&first.1), first.1.body.len());
        unit.add(first);
        for _ in 1..bounds.messages {
            let Some(waiting) = open.next(Duration::ZERO).await? else { break };
            weight += weigh(&waiting.1);
            bytes += waiting.1.body.len();
            if weight > bounds.weight || bytes > bounds.bytes {
                self.carried_over = Some(waiting);
                break;
            }
            unit.add(waiting);
        }
        Ok(Some(unit))
    }
}
