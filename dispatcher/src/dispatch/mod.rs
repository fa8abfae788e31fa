//! The loop that a webhook passes: from the outbox to the fan-out, to what is due, to the sender and to its record.
//!
//! One task has all the state. What takes time runs beside it and comes back as an [`Event`]: statements, attempts, records. Two
//! rounds of the fan-out and few reads run at a time, however much waits.

mod held_slots;

use crate::due::{DueDeliveries, Started};
use crate::outbox::OutboxTurns;
use crate::record::Pending;
use crate::send::DeliverySender;
use crate::slots::Leases;
use crate::store::{self, AttemptRecord, Delivery, Due, DueSubscription, FIRST, FanOutRound, LEFT, Lease, Read};
use common::db::{Database, TxError};
use common::log_limit::LogLimit;
use common::outage::Outage;
use common::{health, limited};
use held_slots::HeldSlots;
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Statements that failed.
pub(crate) static FAN_OUT_OUTAGE: Outage = Outage::new("fan out", "fanning out events of the outbox failed; retrying");
pub(crate) static READ_OUTAGE: Outage = Outage::new("read deliveries", "reading due deliveries failed; retrying");

/// Limits the log lines about deliveries that cannot be read.
static UNREADABLE: LogLimit<1> = LogLimit::new();

/// How often everything that waits is looked for, in case a notification was lost.
const LOOK_INTERVAL: Duration = Duration::from_secs(3);
/// How often attempts that take long are counted as slow.
const TIDY_INTERVAL: Duration = Duration::from_millis(100);
/// Rounds of the fan-out at a time, of different slots: a round that is full delays other tenants little.
const ROUNDS: usize = 2;
/// New deliveries that a round of the fan-out returns completely. Its transaction ends when everything is sent, so the reply
/// should fit into the buffers of a connection: this program may be stopped, and others wait for the transaction to take its slots.
const RETURNED: usize = 64;
/// Reads of due deliveries at a time, and subscriptions of one.
const READS: usize = 2;
const READ_TOGETHER: usize = 64;
/// The deliveries of one removed subscription after the other are dropped.
static DROPS: Semaphore = Semaphore::const_new(1);
/// The wait after a failed statement.
const FAILED_WAIT: Duration = Duration::from_millis(250);
/// How long a subscription waits whose secret cannot be opened, or whose deliveries cannot be read.
const UNSENDABLE_WAIT: Duration = Duration::from_secs(30);
/// The wait before deliveries of a subscription are sent again whose result the database refuses in any form.
const UNRECORDABLE_WAIT: Duration = Duration::from_secs(600);

/// What happened beside the loop.
#[derive(Debug)]
pub(crate) enum Event {
    /// A notification: slots with new events as bits, and whether deliveries of any slot may have become due.
    Woken {
        outbox: u64,
        deliveries: bool,
    },
    /// Leases were renewed, of which so many exceed this dispatcher's share.
    Renewed(Leases, usize),
    /// A round ended, of these leases.
    FannedOut(Vec<Lease>, Result<FanOutRound, TxError>),
    /// Subscriptions were read, when these leases were held.
    Read(Vec<Lease>, Vec<Read>, Result<Vec<Due>, TxError>),
    Looked(Result<(Vec<DueSubscription>, bool), TxError>),
    /// Deliveries of a removed subscription were dropped; whether more may be left.
    Dropped(Uuid, Result<bool, TxError>),
    /// An attempt ended, and its result is to be recorded. Whether the receiver responded.
    Ended(u64, bool),
    /// Results were recorded, or cannot be.
    Recorded(Vec<AttemptRecord>),
    /// The database refuses the result in any form.
    Refused(AttemptRecord),
    /// Results are recorded later, because other transactions have locked these deliveries, given by subscription and number.
    Locked(Vec<(Uuid, i64)>),
}

/// What the loop works with.
pub(crate) struct DispatchDependencies {
    pub dispatcher: Uuid,
    /// For the fan-out, whose commits need not wait for the disk: the event is in the outbox until then.
    pub undurable: Database,
    pub database: Database,
    pub sender: DeliverySender,
    pub records: UnboundedSender<Pending>,
    pub events: UnboundedSender<Event>,
    pub give_up: UnboundedSender<Vec<Lease>>,
    /// The slots that are worked for, for tasks beside the loop.
    pub open: watch::Sender<Leases>,
    /// Most attempts at once.
    pub most: usize,
}

struct Dispatch {
    of: DispatchDependencies,
    due: DueDeliveries,
    outbox: OutboxTurns,
    slots: HeldSlots,
    rounds: usize,
    reads: usize,
    look: Look,
    dropping: HashMap<Uuid, i16>,
    fan_out_after: Instant,
    read_after: Instant,
    read_alone_until: Instant,
    shutdown: CancellationToken,
}

/// A look at all subscriptions with pending deliveries.
#[derive(Clone, Copy, Debug)]
struct Look {
    is_running: bool,
    /// Where the next page begins.
    after: (i16, Uuid),
    /// When the next page is read; after the last one, when a look begins.
    at: Instant,
    /// Whether another look follows the one that is under way, which never begins anew: with many subscriptions it might not end.
    again: bool,
}

/// Delivers webhooks until `shutdown`, and then until the attempts under way are recorded.
pub(crate) async fn run(of: DispatchDependencies, events: UnboundedReceiver<Event>, shutdown: CancellationToken) {
    let now = Instant::now();
    let dispatch = Dispatch {
        due: DueDeliveries::new(of.most),
        of,
        outbox: OutboxTurns::default(),
        slots: HeldSlots::new(now),
        rounds: 0,
        reads: 0,
        look: Look { is_running: false, after: FIRST, at: now, again: false },
        dropping: HashMap::new(),
        fan_out_after: now,
        read_after: now,
        read_alone_until: now,
        shutdown,
    };
    health::watch(dispatch.run(events)).await;
}

impl Dispatch {
    async fn run(mut self, mut events: UnboundedReceiver<Event>) {
        let shutdown = self.shutdown.clone();
        let mut tidy_at = Instant::now() + TIDY_INTERVAL;
        let mut is_draining = false;
        while !(is_draining && self.slots.is_empty() && self.due.held_by_slot().is_empty()) {
            health::beat();
            let wake_up = self.next_wake_up().min(tidy_at);
            tokio::select! {
                () = shutdown.cancelled(), if !is_draining => {
                    is_draining = true;
                    self.slots.close_all();
                    self.slots_changed();
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
            let given_up = self.slots.give_up(|| self.due.held_by_slot());
            if !given_up.is_empty() {
                drop(self.of.give_up.send(given_up));
            }
            if now < self.slots.until {
                for started in self.due.next(now) {
                    self.attempt(started);
                }
                self.begin_rounds(now);
                self.begin_reads(now);
                self.begin_look(now);
            }
        }
    }

    fn next_wake_up(&self) -> Instant {
        let look = if self.look.is_running { None } else { Some(self.look.at) };
        let times = [self.due.next_due(), look, Some(self.slots.until)];
        let now = Instant::now();
        times.into_iter().flatten().filter(|at| *at > now).min().unwrap_or(now + TIDY_INTERVAL)
    }

    fn handle(&mut self, event: Event) {
        let now = Instant::now();
        match event {
            Event::Woken { outbox, deliveries } => {
                self.outbox.wake(outbox);
                if deliveries {
                    self.look_again(now);
                }
            }
            Event::Renewed(leases, excess) => self.renewed(leases, excess, now),
            Event::FannedOut(leases, round) => self.fanned_out(&leases, round, now),
            Event::Read(leases, reads, due) => self.read(&leases, &reads, due, now),
            Event::Looked(found) => self.looked(found, now),
            Event::Dropped(subscription, more) => {
                // After an error the next look finds them.
                if let Some(slot) = self.dropping.remove(&subscription)
                    && more.unwrap_or(false)
                {
                    self.drop_deliveries(subscription, slot);
                }
            }
            Event::Ended(attempt, has_responded) => self.due.finish(attempt, has_responded, now),
            Event::Locked(deliveries) => {
                deliveries.into_iter().for_each(|(subscription, number)| self.due.lock(subscription, number));
            }
            Event::Refused(one) => {
                self.due.release(one.subscription_id, one.number);
                self.due.block(one.subscription_id, now + UNRECORDABLE_WAIT, now);
            }
            Event::Recorded(recorded) => {
                for one in recorded {
                    self.due.release(one.subscription_id, one.number);
                    if let Some(due_in) = one.due_in
                        && self.slots.open_slot(one.lease.slot).is_some()
                    {
                        // Never before it is due by the clock of the database, or it would be read twice.
                        let at = now + due_in;
                        self.due.due((one.tenant_id, one.subscription_id), one.lease.slot, at, now);
                    }
                }
            }
        }
    }

    fn begin_rounds(&mut self, now: Instant) {
        while now >= self.fan_out_after && self.rounds < ROUNDS {
            let (turns, is_alone) = self.outbox.take(self.slots.open());
            if turns.is_empty() {
                return;
            }
            self.rounds += 1;
            let (dispatcher, database, room) =
                (self.of.dispatcher, self.of.undurable.clone(), self.due.room().min(RETURNED));
            self.beside(async move {
                let round = store::fan_out(&database, dispatcher, &turns, is_alone, room).await;
                Event::FannedOut(turns.into_iter().map(|(lease, _)| lease).collect(), round)
            });
        }
    }

    fn fanned_out(&mut self, leases: &[Lease], round: Result<FanOutRound, TxError>, now: Instant) {
        self.rounds -= 1;
        match round {
            Ok(round) => {
                FAN_OUT_OUTAGE.report_success();
                self.outbox.finish(leases, &round.turns);
                for delivery in round.deliveries {
                    self.take(leases, delivery, now);
                }
                if round.left.len() == LEFT {
                    self.look_again(now);
                }
                for key in round.left {
                    if self.is_usable(leases, slot_of(key.0)) {
                        self.due.due(key, slot_of(key.0), now, now);
                    }
                }
            }
            Err(TxError::StatementFailed(_) | TxError::Conflict(_)) => {
                self.outbox.separate(leases);
                self.fan_out_after = now + FAILED_WAIT;
            }
            Err(error) => {
                FAN_OUT_OUTAGE.report_failure(&error);
                self.fan_out_after = now + FAILED_WAIT;
                // It may have been committed or not: deliveries may exist that nobody has told this program of.
                self.outbox.finish(leases, &[]);
                self.outbox.wake(u64::MAX);
                self.look_again(self.fan_out_after);
            }
        }
    }

    fn begin_reads(&mut self, now: Instant) {
        while now >= self.read_after && self.reads < READS {
            let together = if now < self.read_alone_until { 1 } else { READ_TOGETHER };
            let reads = self.due.next_reads(together, now);
            if reads.is_empty() {
                return;
            }
            self.reads += 1;
            let (database, leases) = (self.of.database.clone(), self.slots.open());
            self.beside(async move {
                let due = store::load_due(&database, &reads).await;
                Event::Read(leases, reads, due)
            });
        }
    }

    fn read(&mut self, leases: &[Lease], reads: &[Read], due: Result<Vec<Due>, TxError>, now: Instant) {
        self.reads -= 1;
        // What was recorded since the statement began may be read as if it were pending.
        let outdated: HashSet<(Uuid, i64)> = reads.iter().flat_map(|read| self.due.finish_read(read, now)).collect();
        match due {
            Ok(due) => {
                READ_OUTAGE.report_success();
                let mut left: HashMap<Uuid, usize> =
                    reads.iter().map(|read| (read.subscription_id, read.most)).collect();
                for (delivery, due_in) in due {
                    let (key, slot) = ((delivery.tenant_id, delivery.subscription_id), slot_of(delivery.tenant_id));
                    let left = left.entry(key.1).or_default();
                    *left = left.saturating_sub(1);
                    let is_sendable = !delivery.target.is_paused && !delivery.target.is_removed;
                    let is_last = *left == 0 || !due_in.is_zero();
                    if due_in.is_zero() && !outdated.contains(&(key.1, delivery.number)) {
                        self.take(leases, delivery, now);
                    }
                    if is_last && is_sendable && self.is_usable(leases, slot) {
                        self.due.due(key, slot, now + due_in, now);
                    }
                }
            }
            Err(TxError::StatementFailed(error)) => {
                limited!(UNREADABLE[0], error, %error, "due deliveries cannot be read; reading subscriptions one by one");
                match reads {
                    [read] => self.due.block(read.subscription_id, now + UNSENDABLE_WAIT, now),
                    _ => self.read_alone_until = now + UNSENDABLE_WAIT,
                }
                self.look_again(now);
            }
            Err(error) => {
                READ_OUTAGE.report_failure(&error);
                self.read_after = now + FAILED_WAIT;
                self.look_again(self.read_after);
            }
        }
    }

    /// Attempts a delivery that was read when these leases were held, or leaves it to the database.
    fn take(&mut self, leases: &[Lease], delivery: Delivery, now: Instant) {
        let (slot, target) = (slot_of(delivery.tenant_id), &delivery.target);
        if !self.is_usable(leases, slot) || (target.is_paused && !target.is_removed) {
            return;
        }
        let key = (delivery.tenant_id, delivery.subscription_id);
        if target.is_removed {
            self.drop_deliveries(delivery.subscription_id, slot);
        } else if !self.of.sender.can_send(&delivery) {
            // The rest of its subscription would fail in the same way. It stays due: nothing was sent.
            self.due.due(key, slot, now + UNSENDABLE_WAIT, now);
            self.due.block(key.1, now + UNSENDABLE_WAIT, now);
        } else if let Some(started) = self.due.offer(delivery, slot, now) {
            self.attempt(started);
        }
    }

    /// Whether what was read of the slot may be used: its lease was held then, and is still.
    fn is_usable(&self, leases: &[Lease], slot: i16) -> bool {
        Instant::now() < self.slots.until && self.slots.open_slot(slot).is_some_and(|lease| leases.contains(&lease))
    }

    fn attempt(&self, Started { attempt, delivery }: Started) {
        let slot = slot_of(delivery.tenant_id);
        // Only what is of open slots is due.
        let lease = self.slots.open_slot(slot).unwrap_or(Lease { slot, epoch: -1 });
        let (sender, records, events) = (self.of.sender.clone(), self.of.records.clone(), self.of.events.clone());
        drop(common::critical_task::spawn("attempt", async move {
            let (record, has_responded) = sender.attempt(delivery, lease).await;
            // The record comes first, so that a drain that sees no attempt sees its record. The recorder outlives all attempts.
            drop(records.send((record, Instant::now())));
            drop(events.send(Event::Ended(attempt, has_responded)));
        }));
    }

    fn drop_deliveries(&mut self, subscription: Uuid, slot: i16) {
        let Some(lease) = self.slots.open_slot(slot) else { return };
        if self.dropping.insert(subscription, slot).is_some() {
            return;
        }
        let (dispatcher, database) = (self.of.dispatcher, self.of.database.clone());
        self.beside(async move {
            let _permit = DROPS.acquire().await;
            let dropped = store::drop_pending(&database, dispatcher, lease, subscription).await;
            Event::Dropped(subscription, dropped)
        });
    }

    fn begin_look(&mut self, now: Instant) {
        if self.look.is_running || now < self.look.at || self.slots.is_empty() {
            return;
        }
        if self.look.after == FIRST {
            self.look.again = false;
            self.outbox.wake(u64::MAX);
        }
        self.look = Look { is_running: true, at: now + LOOK_INTERVAL, ..self.look };
        let (database, after) = (self.of.database.clone(), self.look.after);
        self.beside(async move { Event::Looked(store::look(&database, after).await) });
    }

    /// Begins a look at that time, or after the one that is under way.
    const fn look_again(&mut self, at: Instant) {
        (self.look.at, self.look.again) = (at, true);
    }

    fn looked(&mut self, found: Result<(Vec<DueSubscription>, bool), TxError>, now: Instant) {
        self.look.is_running = false;
        let (found, has_more) = match found {
            Ok(found) => found,
            Err(error) => {
                READ_OUTAGE.report_failure(&error);
                return self.look_again(now + FAILED_WAIT);
            }
        };
        let last = found.last().map(|last| (last.slot, last.subscription_id));
        for one in found {
            if !one.is_paused && self.slots.open_slot(one.slot).is_some() {
                self.due.due((one.tenant_id, one.subscription_id), one.slot, now + one.due_in, now);
            }
        }
        self.look.after = last.filter(|_| has_more).unwrap_or(FIRST);
        if has_more || self.look.again {
            self.look.at = now;
        }
    }

    fn renewed(&mut self, leases: Leases, excess: usize, now: Instant) {
        let is_draining = self.shutdown.is_cancelled();
        let renewal = self.slots.renew(leases, excess, &self.due.held_by_slot(), is_draining);
        if renewal.lost > 0 {
            let lost = renewal.lost;
            tracing::warn!(
                lost,
                "other dispatchers have taken slots, because this one did not renew their leases in time"
            );
        }
        if !renewal.given_up.is_empty() {
            drop(self.of.give_up.send(renewal.given_up));
        }
        if renewal.opened != 0 {
            self.outbox.wake(renewal.opened);
            self.look_again(now);
        }
        self.slots_changed();
    }

    fn slots_changed(&mut self) {
        let held = self.slots.open();
        self.due.close(|slot| held.iter().any(|lease| lease.slot == slot));
        self.of.open.send_replace(Leases { held, until: self.slots.until });
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
