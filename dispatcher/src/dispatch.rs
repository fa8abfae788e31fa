//! The loop that a webhook passes: from the outbox to the fan-out, to what is due, to the sender and to its record.
//!
//! One task has all the state. What takes time runs beside it and comes back as an [`Event`]: statements, attempts, records. A
//! round of the fan-out and few reads run at a time, however much waits.

use crate::due::{DueDeliveries, Responsiveness, Started};
use crate::outbox::{OutboxTurns, bit};
use crate::record::{RecordQueue, Recorded};
use crate::send::{DeliveryAttempt, DeliverySender};
use crate::slots::Leases;
use crate::store::{self, Delivery, DueSubscription, FanOutRound, Lease, Read};
use common::db::{Database, TxError};
use common::outage::Outage;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Statements that failed.
pub(crate) static FAN_OUT_OUTAGE: Outage =
    Outage::new("fan out", "fanning out events of the outbox failed; retrying");
pub(crate) static READ_OUTAGE: Outage =
    Outage::new("read deliveries", "reading due deliveries failed; retrying");

/// How often everything that waits is looked for, in case a notification was lost.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);
/// How often attempts that take long are counted as slow.
const TIDY_INTERVAL: Duration = Duration::from_millis(100);
/// New deliveries that a round of the fan-out returns completely. Its transaction ends when everything is sent, so the reply must
/// fit into the buffers of a connection: this program may be stopped, and others wait for the transaction to take its slots.
const RETURNED: usize = 64;
/// Reads of due deliveries at a time, and subscriptions of one.
const READS: usize = 2;
const READ_TOGETHER: usize = 64;
/// The wait after a failed statement.
const FAILED_WAIT: Duration = Duration::from_millis(250);
/// How long a subscription waits whose secret cannot be opened.
const UNSENDABLE_WAIT: Duration = Duration::from_secs(30);

/// What happened beside the loop.
#[derive(Debug)]
pub(crate) enum Event {
    /// A notification: slots with new events as bits, and whether deliveries of any slot may have become due.
    Woken {
        outbox: u64,
        deliveries: bool,
    },
    /// Leases were renewed.
    Leases(Leases),
    FannedOut(u64, Result<FanOutRound, TxError>),
    Read(u64, Vec<Read>, Result<Vec<(Delivery, Duration)>, TxError>),
    Looked(Result<(Vec<DueSubscription>, bool), TxError>),
    /// Deliveries of a removed subscription were dropped; whether more may be left.
    Dropped(Uuid, Result<bool, TxError>),
    /// An attempt ended, and its result is to be recorded.
    Ended(u64, Responsiveness),
    /// Results were recorded, or cannot be.
    Recorded(Vec<Recorded>),
}

/// What the loop works with.
pub(crate) struct DispatchDependencies {
    pub dispatcher: Uuid,
    /// For the fan-out, whose commits need not wait for the disk: the event is in the outbox until then.
    pub undurable: Database,
    pub database: Database,
    pub sender: DeliverySender,
    pub records: RecordQueue,
    pub events: UnboundedSender<Event>,
    pub give_up: UnboundedSender<Vec<Lease>>,
    /// The slots that are worked for, for tasks beside the loop.
    pub open: watch::Sender<OpenSlots>,
    /// Most attempts at once.
    pub most: usize,
}

/// The slots that are worked for.
#[derive(Clone, Debug)]
pub(crate) struct OpenSlots {
    pub leases: Vec<Lease>,
    /// Until when they are certain.
    pub until: Instant,
}

/// A slot that this dispatcher holds.
#[derive(Clone, Copy, Debug)]
struct HeldSlot {
    epoch: i64,
    /// Statements that began before do not know that it is held.
    since: u64,
    /// It is given up once its attempts are recorded.
    is_closing: bool,
}

struct Dispatch {
    of: DispatchDependencies,
    due: DueDeliveries,
    outbox: OutboxTurns,
    slots: BTreeMap<i16, HeldSlot>,
    /// Epochs that were given up, which a renewal under way may still report.
    given_up: HashMap<i16, i64>,
    leased_until: Instant,
    /// Statements under way, by their numbers, and the number of the next one.
    statements: BTreeMap<u64, Statement>,
    next_statement: u64,
    /// Deliveries that are on record, but perhaps not for a statement before this number.
    recorded: VecDeque<(u64, Uuid, i64)>,
    look: Look,
    dropping: HashMap<Uuid, i16>,
    fan_out_after: Instant,
    read_after: Instant,
    shutdown: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statement {
    FanOut,
    Read,
}

/// A look at all subscriptions with pending deliveries.
#[derive(Clone, Copy, Debug)]
struct Look {
    is_running: bool,
    /// Where the next page begins.
    after: (i16, Uuid),
    /// When the next one begins, if the last one is complete.
    at: Instant,
}

const FIRST: (i16, Uuid) = (-1, Uuid::nil());

/// Delivers webhooks until `shutdown`, and then until the attempts under way are recorded.
pub(crate) async fn run(
    of: DispatchDependencies,
    events: UnboundedReceiver<Event>,
    shutdown: CancellationToken,
) {
    let now = Instant::now();
    let dispatch = Dispatch {
        due: DueDeliveries::new(of.most),
        of,
        outbox: OutboxTurns::default(),
        slots: BTreeMap::new(),
        given_up: HashMap::new(),
        leased_until: now,
        statements: BTreeMap::new(),
        next_statement: 0,
        recorded: VecDeque::new(),
        look: Look { is_running: false, after: FIRST, at: now },
        dropping: HashMap::new(),
        fan_out_after: now,
        read_after: now,
        shutdown,
    };
    dispatch.run(events).await;
}

impl Dispatch {
    async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        let shutdown = self.shutdown.clone();
        let mut tidy_at = Instant::now() + TIDY_INTERVAL;
        let mut is_draining = false;
        while !(is_draining && self.slots.is_empty() && self.due.held_by_slot().is_empty()) {
            let wake_up = self.next_wake_up().min(tidy_at);
            tokio::select! {
                () = shutdown.cancelled(), if !is_draining => {
                    is_draining = true;
                    self.slots.values_mut().for_each(|slot| slot.is_closing = true);
                    self.open_slots_changed();
                }
                event = events.recv() => {
                    let Some(event) = event else { return };
                    self.handle(event);
                    // Everything that has happened meanwhile is taken into account before anything is begun.
                    while let Ok(event) = events.try_recv() {
                        self.handle(event);
                    }
                }
                () = sleep_until(wake_up) => {}
            }
            let now = Instant::now();
            if now >= tidy_at {
                self.due.tidy(now);
                tidy_at = now + TIDY_INTERVAL;
            }
            self.give_up_closed();
            self.advance(now);
        }
    }

    fn next_wake_up(&self) -> Instant {
        let look = if self.look.is_running { None } else { Some(self.look.at) };
        let times = [self.due.next_due(), look, Some(self.leased_until)];
        let now = Instant::now();
        times.into_iter().flatten().filter(|at| *at > now).min().unwrap_or(now + TIDY_INTERVAL)
    }

    fn handle(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Woken { outbox, deliveries } => {
                self.outbox.wake(outbox);
                if deliveries {
                    self.look = Look { after: FIRST, at: now, ..self.look };
                }
            }
            Event::Leases(leases) => self.apply_leases(leases),
            Event::FannedOut(number, round) => self.fanned_out(number, round, now),
            Event::Read(number, reads, due) => self.read(number, &reads, due, now),
            Event::Looked(found) => self.looked(found, now),
            Event::Dropped(subscription, more) => {
                // After an error the next look finds them.
                if let Some(slot) = self.dropping.remove(&subscription)
                    && more.unwrap_or(false)
                {
                    self.drop_deliveries(subscription, slot);
                }
            }
            Event::Ended(attempt, responsiveness) => self.due.finish(attempt, responsiveness, now),
            Event::Recorded(recorded) => {
                for one in recorded {
                    self.recorded.push_back((self.next_statement, one.subscription_id, one.number));
                    if let Some(due_in) = one.due_in
                        && self.open_slot(one.slot).is_some()
                    {
                        // Never before it is due by the clock of the database, or it would be read twice.
                        let at = now + due_in;
                        self.due.due((one.tenant_id, one.subscription_id), one.slot, at, now);
                    }
                }
                self.release_recorded();
            }
        }
    }

    /// Begins what can be begun.
    fn advance(&mut self, now: Instant) {
        if now >= self.leased_until {
            return;
        }
        for started in self.due.next(now) {
            self.attempt(started);
        }
        self.begin_fan_out(now);
        self.begin_reads(now);
        self.begin_look(now);
    }

    fn begin_fan_out(&mut self, now: Instant) {
        if now < self.fan_out_after || self.statements.values().any(|one| *one == Statement::FanOut) {
            return;
        }
        let open = self.slots.iter().filter(|(_, slot)| !slot.is_closing).map(|(number, _)| *number);
        let turns = self.outbox.take(open);
        if turns.is_empty() {
            return;
        }
        let lease = |slot: i16| Lease { slot, epoch: self.slots.get(&slot).map_or(0, |held| held.epoch) };
        let turns: Vec<(Lease, Uuid)> = turns.into_iter().map(|(slot, after)| (lease(slot), after)).collect();
        let (dispatcher, database, room) =
            (self.of.dispatcher, self.of.undurable.clone(), self.due.room().min(RETURNED));
        let number = self.statement(Statement::FanOut);
        self.beside(async move {
            let round = store::fan_out(&database, dispatcher, &turns, room).await;
            // All slots of a failed round are pending again: it may have been committed or not.
            Event::FannedOut(number, round)
        });
    }

    fn fanned_out(&mut self, number: u64, round: Result<FanOutRound, TxError>, now: Instant) {
        match round {
            Ok(round) => {
                FAN_OUT_OUTAGE.report_success();
                self.outbox.finish(&round.turns);
                for (delivery, is_read) in round.deliveries {
                    self.take(number, delivery, is_read, now);
                }
            }
            Err(error) => {
                FAN_OUT_OUTAGE.report_failure(&error);
                self.fan_out_after = now + FAILED_WAIT;
                self.outbox.wake(u64::MAX);
                // Deliveries may be committed that nobody has told this program of.
                self.look = Look { after: FIRST, at: self.fan_out_after, ..self.look };
            }
        }
        self.finish_statement(number);
    }

    fn begin_reads(&mut self, now: Instant) {
        while now >= self.read_after
            && self.statements.values().filter(|one| **one == Statement::Read).count() < READS
        {
            let reads = self.due.next_reads(READ_TOGETHER, now);
            if reads.is_empty() {
                return;
            }
            let (database, number) = (self.of.database.clone(), self.statement(Statement::Read));
            self.beside(async move {
                let due = store::load_due(&database, &reads).await;
                Event::Read(number, reads, due)
            });
        }
    }

    fn read(
        &mut self,
        number: u64,
        reads: &[Read],
        due: Result<Vec<(Delivery, Duration)>, TxError>,
        now: Instant,
    ) {
        for read in reads {
            self.due.finish_read(read.subscription_id, now);
        }
        match due {
            Ok(due) => {
                READ_OUTAGE.report_success();
                let mut left: HashMap<Uuid, usize> =
                    reads.iter().map(|read| (read.subscription_id, read.most)).collect();
                for (delivery, due_in) in due {
                    let (key, slot) =
                        ((delivery.tenant_id, delivery.subscription_id), slot_of(delivery.tenant_id));
                    let left = left.entry(key.1).or_default();
                    *left = left.saturating_sub(1);
                    let is_sendable = !delivery.target.is_paused && !delivery.target.is_removed;
                    let is_last = *left == 0 || !due_in.is_zero();
                    if due_in.is_zero() {
                        self.take(number, delivery, true, now);
                    }
                    if is_last && is_sendable && self.is_usable(number, slot) {
                        self.due.due(key, slot, now + due_in, now);
                    }
                }
            }
            Err(error) => {
                READ_OUTAGE.report_failure(&error);
                self.read_after = now + FAILED_WAIT;
                self.look = Look { after: FIRST, at: self.read_after, ..self.look };
            }
        }
        self.finish_statement(number);
    }

    /// Attempts a delivery that was read by that statement, or leaves it to the database.
    fn take(&mut self, number: u64, delivery: Delivery, is_read: bool, now: Instant) {
        let slot = slot_of(delivery.tenant_id);
        if !self.is_usable(number, slot) || delivery.target.is_paused {
            return;
        }
        let key = (delivery.tenant_id, delivery.subscription_id);
        if delivery.target.is_removed {
            self.drop_deliveries(delivery.subscription_id, slot);
        } else if !is_read {
            self.due.due(key, slot, now, now);
        } else if !self.of.sender.can_send(&delivery) {
            // The rest of its subscription would fail in the same way. It stays due: nothing was sent.
            self.due.block(key.1, now + UNSENDABLE_WAIT);
            self.due.due(key, slot, now + UNSENDABLE_WAIT, now);
        } else if let Some(started) = self.due.offer(delivery, slot, now) {
            self.attempt(started);
        }
    }

    fn attempt(&self, Started { attempt, delivery }: Started) {
        let slot = slot_of(delivery.tenant_id);
        let epoch = self.slots.get(&slot).map_or(0, |held| held.epoch);
        let attempting = DeliveryAttempt { delivery, lease: Lease { slot, epoch } };
        let (sender, records, events) =
            (self.of.sender.clone(), self.of.records.clone(), self.of.events.clone());
        drop(common::critical_task::spawn("attempt", async move {
            let (record, responsiveness) = sender.attempt(attempting).await;
            // The record comes first, so that a drain that sees no attempt sees its record.
            records.push(record);
            drop(events.send(Event::Ended(attempt, responsiveness)));
        }));
    }

    fn drop_deliveries(&mut self, subscription: Uuid, slot: i16) {
        let Some(epoch) = self.open_slot(slot).map(|held| held.epoch) else { return };
        if self.dropping.insert(subscription, slot).is_some() {
            return;
        }
        let (dispatcher, database) = (self.of.dispatcher, self.of.database.clone());
        self.beside(async move {
            let lease = Lease { slot, epoch };
            Event::Dropped(
                subscription,
                store::drop_pending(&database, dispatcher, lease, subscription).await,
            )
        });
    }

    fn begin_look(&mut self, now: Instant) {
        if self.look.is_running || now < self.look.at || self.slots.is_empty() {
            return;
        }
        if self.look.after == FIRST {
            self.outbox.wake(u64::MAX);
        }
        self.look = Look { is_running: true, at: now + LOOK_INTERVAL, ..self.look };
        let (database, after) = (self.of.database.clone(), self.look.after);
        self.beside(async move { Event::Looked(store::look(&database, after).await) });
    }

    fn looked(&mut self, found: Result<(Vec<DueSubscription>, bool), TxError>, now: Instant) {
        self.look.is_running = false;
        let (found, has_more) = match found {
            Ok(found) => found,
            Err(error) => {
                READ_OUTAGE.report_failure(&error);
                self.look = Look { after: FIRST, at: now + FAILED_WAIT, ..self.look };
                return;
            }
        };
        // A look that was asked for meanwhile begins anew.
        let is_asked_for = self.look.at <= now;
        let last = found.last().map(|last| (last.slot, last.subscription_id));
        for one in found {
            if !one.is_paused && self.open_slot(one.slot).is_some() {
                self.due.due((one.tenant_id, one.subscription_id), one.slot, now + one.due_in, now);
            }
        }
        if is_asked_for {
            return;
        }
        self.look.after = last.filter(|_| has_more).unwrap_or(FIRST);
        if has_more {
            self.look.at = now;
        }
    }

    fn apply_leases(&mut self, leases: Leases) {
        self.leased_until = leases.until;
        let since = self.next_statement;
        let is_draining = self.shutdown.is_cancelled();
        let is_given_up = |lease: &Lease| self.given_up.get(&lease.slot) == Some(&lease.epoch);
        let (again, held): (Vec<Lease>, Vec<Lease>) = leases.held.into_iter().partition(is_given_up);
        if !again.is_empty() {
            // The statement that gave them up may have failed.
            drop(self.of.give_up.send(again));
        }
        let held: BTreeMap<i16, i64> = held.iter().map(|lease| (lease.slot, lease.epoch)).collect();
        let lost = self.slots.len();
        self.slots.retain(|slot, before| held.get(slot) == Some(&before.epoch));
        if self.slots.len() < lost {
            tracing::warn!(
                lost = lost - self.slots.len(),
                "other dispatchers have taken slots, because this one did not renew their leases in time"
            );
        }
        let mut is_new = false;
        for (slot, epoch) in held {
            self.slots.entry(slot).or_insert_with(|| {
                is_new = true;
                self.outbox.wake(bit(slot));
                HeldSlot { epoch, since, is_closing: is_draining }
            });
        }
        if is_new {
            self.look = Look { after: FIRST, at: Instant::now(), ..self.look };
        }
        self.close_excess(leases.excess);
        self.open_slots_changed();
    }

    /// Closes as many slots as others are to have, those with the fewest deliveries under way first.
    fn close_excess(&mut self, excess: usize) {
        if self.shutdown.is_cancelled() {
            return;
        }
        let held = self.due.held_by_slot();
        let mut slots: Vec<(bool, usize, i16)> = self
            .slots
            .iter()
            .map(|(slot, state)| (!state.is_closing, held.get(slot).copied().unwrap_or(0), *slot))
            .collect();
        slots.sort_unstable();
        for (index, (_, _, slot)) in slots.into_iter().enumerate() {
            if let Some(state) = self.slots.get_mut(&slot) {
                let was_closing = std::mem::replace(&mut state.is_closing, index < excess);
                if was_closing && !state.is_closing {
                    self.outbox.wake(bit(slot));
                    self.look = Look { after: FIRST, at: Instant::now(), ..self.look };
                }
            }
        }
    }

    fn open_slots_changed(&mut self) {
        let slots = &self.slots;
        self.due.close(|slot| slots.get(&slot).is_some_and(|state| !state.is_closing));
        let open = slots.iter().filter(|(_, state)| !state.is_closing);
        let leases = open.map(|(slot, state)| Lease { slot: *slot, epoch: state.epoch }).collect();
        self.of.open.send_replace(OpenSlots { leases, until: self.leased_until });
    }

    /// Gives up closing slots whose attempts are recorded.
    fn give_up_closed(&mut self) {
        if !self.slots.values().any(|slot| slot.is_closing) {
            return;
        }
        let held = self.due.held_by_slot();
        let mut given_up = Vec::new();
        self.slots.retain(|slot, state| {
            let is_done = state.is_closing && !held.contains_key(slot);
            if is_done {
                given_up.push(Lease { slot: *slot, epoch: state.epoch });
            }
            !is_done
        });
        if !given_up.is_empty() {
            self.given_up.extend(given_up.iter().map(|lease| (lease.slot, lease.epoch)));
            drop(self.of.give_up.send(given_up));
        }
    }

    fn open_slot(&self, slot: i16) -> Option<&HeldSlot> {
        self.slots.get(&slot).filter(|state| !state.is_closing)
    }

    /// Whether what a statement has read of the slot may be used: it began when the slot was held.
    fn is_usable(&self, statement: u64, slot: i16) -> bool {
        self.open_slot(slot).is_some_and(|held| held.since <= statement)
    }

    fn statement(&mut self, kind: Statement) -> u64 {
        let number = self.next_statement;
        self.next_statement += 1;
        self.statements.insert(number, kind);
        number
    }

    fn finish_statement(&mut self, number: u64) {
        self.statements.remove(&number);
        self.release_recorded();
    }

    /// Forgets recorded deliveries that no statement under way can return as if they were pending.
    fn release_recorded(&mut self) {
        let oldest = self.statements.keys().next().copied().unwrap_or(self.next_statement);
        while let Some((before, subscription, number)) = self.recorded.front().copied()
            && before <= oldest
        {
            self.recorded.pop_front();
            self.due.release(subscription, number);
        }
    }

    fn beside(&self, work: impl Future<Output = Event> + Send + 'static) {
        let events = self.of.events.clone();
        drop(common::critical_task::spawn("statement", async move { drop(events.send(work.await)) }));
    }
}

/// The slot of a tenant.
pub(crate) const fn slot_of(tenant: Uuid) -> i16 {
    common::model::TenantId(tenant).slot()
}
