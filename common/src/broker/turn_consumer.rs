//! A consumer that handles messages one by one and by turns. They wait in memory in lines, one for each tenant, in their order; a
//! line whose turn it is has its first message handled. So a message waits for those before it in its line, and for one of each
//! other line, however long they are.
//!
//! It holds so many messages as the bounds allow. Beyond them messages wait in the queue, whatever their tenant.

use super::consumer::{ConsumerSettings, OpenConsumer, PUT_OFF_WAIT, run_consumer};
use super::message::Message;
use super::settle::{MessageOutcome, Settler, Unit};
use super::unacknowledged::UnacknowledgedGuard;
use lapin::message::Delivery;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;

/// Prefetch until a message was handled. After a crash the message that caused it is among the first: few are delivered with it.
const FIRST_PREFETCH: u16 = 32;
/// Prefetch of each further consumer, which is added once that of the one before is used up.
const PREFETCH: u16 = 2_000;
/// No consumer is added while so many messages, or so many bytes of bodies, are held.
const MAX_MESSAGES: usize = 32_000;
const MAX_BYTES: usize = 32 << 20;

/// Handles messages by turns.
pub trait TurnHandler {
    /// The reasons of its [`MessageOutcome::DeadLetter`].
    const DEAD_LETTER_REASONS: &'static [&'static str];

    /// The name of the line in which a message waits.
    fn line(&self, message: &Message) -> String;

    /// Handles a message. Returns only after everything that must be durable is, because it is acknowledged then. If it is put off,
    /// it stays the first of its line, and other lines go on. It is never canceled.
    fn handle(&mut self, message: &Message) -> impl Future<Output = MessageOutcome>;
}

/// Consumes until the shutdown of `settings`, and again after each reconnect of its broker.
pub async fn run_turn_consumer<H: TurnHandler>(settings: ConsumerSettings<'_>, mut handler: H) {
    let mut settler = Settler::new(settings.replies, settings.queue);
    let consume = async |open: &mut OpenConsumer| {
        let mut lines = Lines { prefetch: FIRST_PREFETCH, ..Lines::default() };
        while !open.is_shutting_down() {
            if let Some((delivery, message)) = open.next(lines.wait()).await? {
                lines.add(handler.line(&message), delivery, message);
                continue;
            }
            if lines.need_consumer() {
                open.renew(lines.newest, PREFETCH).await?;
                (lines.prefetch, lines.held, lines.since) = (PREFETCH, 0, lines.newest);
                continue;
            }
            let Some((line, first)) = lines.next() else { continue };
            let (number, bytes) = (first.0.delivery_tag, first.1.body.len());
            let _unacknowledged = UnacknowledgedGuard::new(settings.queue);
            let outcomes = [handler.handle(&first.1).await];
            let mut unit = Unit::default();
            unit.add(first);
            let put_off = settler.settle(unit, &outcomes).await?.pop();
            lines.end_turn(line, put_off, (number, bytes));
        }
        Ok(())
    };
    run_consumer(settings, (FIRST_PREFETCH, 0), H::DEAD_LETTER_REASONS, consume).await;
}

/// The messages that are held.
#[derive(Default)]
struct Lines {
    waiting: HashMap<String, VecDeque<(Delivery, Message)>>,
    /// The lines that have messages, by the time of their turn and the number of their first message.
    turns: BTreeMap<(Instant, u64), String>,
    messages: usize,
    bytes: usize,
    /// The number of the last message that was received.
    newest: u64,
    /// Whether a message was handled.
    has_begun: bool,
    /// The prefetch of the newest consumer, how many of its messages are held, and `newest` when it was added.
    prefetch: u16,
    held: u16,
    since: u64,
}

impl Lines {
    /// How long to wait for a message before the next turn.
    fn wait(&self) -> Duration {
        let next = self.turns.first_key_value();
        next.map_or(Duration::MAX, |((at, _), _)| at.saturating_duration_since(Instant::now()))
    }

    fn add(&mut self, line: String, delivery: Delivery, message: Message) {
        self.newest = delivery.delivery_tag;
        (self.held, self.messages, self.bytes) =
            (self.held + 1, self.messages + 1, self.bytes + message.body.len());
        let waiting = self.waiting.entry(line.clone()).or_default();
        waiting.push_back((delivery, message));
        if waiting.len() == 1 {
            self.turns.insert((Instant::now(), self.newest), line);
        }
    }

    /// The first message of the line whose turn it is.
    fn next(&mut self) -> Option<(String, (Delivery, Message))> {
        let turn = self.turns.first_entry().filter(|turn| turn.key().0 <= Instant::now())?;
        let line = turn.remove();
        let first = self.waiting.get_mut(&line)?.pop_front()?;
        Some((line, first))
    }

    /// Ends the turn of a line whose first message, with this number and length, is settled or was put off.
    fn end_turn(
        &mut self,
        line: String,
        put_off: Option<(Delivery, Message)>,
        (number, bytes): (u64, usize),
    ) {
        self.has_begun = true;
        let Some(waiting) = self.waiting.get_mut(&line) else { return };
        let mut at = Instant::now();
        if let Some(first) = put_off {
            waiting.push_front(first);
            at += PUT_OFF_WAIT;
        } else {
            (self.messages, self.bytes) = (self.messages - 1, self.bytes - bytes);
            self.held -= u16::from(number > self.since);
        }
        match waiting.front() {
            Some((next, _)) => drop(self.turns.insert((at, next.delivery_tag), line)),
            None => drop(self.waiting.remove(&line)),
        }
    }

    /// Whether the prefetch of the newest consumer is used up and more may be held.
    const fn need_consumer(&self) -> bool {
        let has_room = self.messages < MAX_MESSAGES && self.bytes < MAX_BYTES;
        self.has_begun && self.held == self.prefetch && has_room
    }
}
