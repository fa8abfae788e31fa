//! Which deliveries are read and attempted next (D28). Pure: time is an argument.
//!
//! What waits stays in the database. This program has only what it attempts, and of receivers that respond promptly a little in
//! advance. Tenants take turns, and so do the subscriptions of a tenant.
//!
//! - A subscription begins with few attempts at once; each response permits one more, up to 32. After an attempt without a
//!   response it has one.
//! - Receivers that did not respond promptly to their last attempt, and new ones, get at most half of all attempts.
//! - A tenant gets half as many attempts as it leaves to others, and of the half for slow receivers as many as it leaves. So one
//!   that is new always finds a free attempt, whatever the receivers of another tenant do, also if all of them hang at once.

mod turns;

use crate::store::{Delivery, Read};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use turns::Turns;
use uuid::Uuid;

/// Attempts at once that a subscription begins with, and that it may have at most.
const FIRST_LIMIT: usize = 2;
const LIMIT_MAX: usize = 32;
/// Deliveries in advance of the attempts of a subscription, as a multiple of its limit.
const READ_AHEAD: usize = 7;
/// Deliveries in memory, as a multiple of the attempts at once. A tenant gets no attempt while so many of its are not on record.
const HELD: usize = 4;
/// The same of all tenants: nobody gets an attempt.
const UNRECORDED: usize = 16;
/// How long a delivery waits here before its attempt, in which a change of its subscription has no effect on it. Most take less.
const WAIT_MAX: Duration = Duration::from_secs(2);
/// A response within this time is prompt. An attempt that takes longer counts as slow before it has ended.
const PROMPT: Duration = Duration::from_millis(250);
/// Subscriptions that are known. Those beyond are found by looks: first of all those that are not due yet, then those of the tenant
/// with the most.
const KNOWN_MAX: usize = 20_000;
/// How long an idle receiver is remembered as prompt.
const FORGET_AFTER: Duration = Duration::from_secs(600);

/// How a receiver has responded lately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// It responded promptly to the last attempt.
    Prompt,
    /// It is new, or did not.
    Slow,
}

/// A delivery whose attempt begins.
#[derive(Debug)]
pub(crate) struct Started {
    pub attempt: u64,
    pub delivery: Delivery,
}

#[derive(Debug)]
struct Receiver {
    tenant: Uuid,
    slot: i16,
    pace: Pace,
    limit: usize,
    running: usize,
    /// With the times at which they were read.
    waiting: VecDeque<(Instant, Delivery)>,
    /// Numbers of all deliveries that this program has: waiting, attempted, or to be recorded; each with whether it is locked.
    held: HashMap<i64, bool>,
    /// When the next delivery that is not held is due; `None` if none is known.
    due_at: Option<Instant>,
    /// Nothing is read before this time.
    blocked_until: Option<Instant>,
    /// The pace that it is counted with while it is read.
    reading: Option<Pace>,
    /// Recorded meanwhile: the reading may not know it.
    recorded: Vec<i64>,
    has_turn: bool,
    last_used: Instant,
}

#[derive(Debug)]
struct Running {
    subscription: Uuid,
    pace: Pace,
    began: Instant,
}

/// Attempts, and subscriptions that are being read.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    all: usize,
    slow: usize,
    /// Attempts that are not on record, without those whose rows are locked.
    unrecorded: usize,
}

/// What is due, and what is attempted.
#[derive(Debug, Default)]
pub(crate) struct DueDeliveries {
    receivers: HashMap<Uuid, Receiver>,
    running: BTreeMap<u64, Running>,
    loads: HashMap<Uuid, Load>,
    load: Load,
    held: usize,
    /// Those of them that wait for an attempt.
    waiting: usize,
    /// Deliveries that are being read.
    reading: usize,
    /// Of subscriptions that are prompt, and of others.
    turns: [Turns; 2],
    later: BTreeSet<(Instant, Uuid)>,
    to_read: VecDeque<Uuid>,
    most: usize,
    next_attempt: u64,
}

impl Receiver {
    fn new(tenant: Uuid, slot: i16, now: Instant) -> Self {
        Self {
            tenant,
            slot,
            pace: Pace::Slow,
            limit: FIRST_LIMIT,
            running: 0,
            waiting: VecDeque::new(),
            held: HashMap::new(),
            due_at: None,
            blocked_until: None,
            reading: None,
            recorded: Vec::new(),
            has_turn: false,
            last_used: now,
        }
    }

    /// Forgets the deliveries that wait and were read before that time, or all, and returns how many there were.
    fn leave_waiting(&mut self, read_before: Option<Instant>) -> usize {
        let before = self.waiting.len();
        while let Some((read, delivery)) = self.waiting.front()
            && read_before.is_none_or(|time| *read < time)
        {
            self.held.remove(&delivery.number);
            self.waiting.pop_front();
        }
        before - self.waiting.len()
    }

    fn is_due(&self, now: Instant) -> bool {
        self.due_at.is_some_and(|at| at <= now)
    }

    fn is_idle(&self) -> bool {
        self.held.is_empty() && self.due_at.is_none() && self.reading.is_none() && !self.has_turn
    }
}

impl DueDeliveries {
    /// Nothing is due. At most `most` attempts are made at once.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, ..Self::default() }
    }

    /// Notes that a delivery of the subscription, which this program does not have, is due at that time.
    pub(crate) fn due(&mut self, (tenant, subscription): (Uuid, Uuid), slot: i16, at: Instant, now: Instant) {
        let is_full = self.receivers.len() >= KNOWN_MAX && !self.receivers.contains_key(&subscription);
        if is_full && (at > now || !self.make_room(tenant, now)) {
            return;
        }
        let receiver = self.receivers.entry(subscription).or_insert_with(|| Receiver::new(tenant, slot, now));
        let at = receiver.blocked_until.map_or(at, |until| at.max(until));
        if receiver.due_at.is_some_and(|before| before <= at) {
            return;
        }
        if let Some(before) = receiver.due_at.replace(at) {
            self.later.remove(&(before, subscription));
        }
        if at > now {
            self.later.insert((at, subscription));
        }
        self.give_turn(subscription, now);
    }

    /// Forgets a subscription, until a look finds it: the one whose next delivery is due last, or the last in turn of the tenant that
    /// has the most of them, if `tenant` has fewer. Returns whether there is room now.
    fn make_room(&mut self, tenant: Uuid, now: Instant) -> bool {
        let latest = self.later.pop_last().map(|(_, latest)| latest);
        let forgotten = latest.or_else(|| Turns::take_last(&mut self.turns, tenant));
        let Some(forgotten) = forgotten else { return false };
        let Some(receiver) = self.receivers.get_mut(&forgotten) else { return false };
        receiver.due_at = None;
        receiver.has_turn &= latest.is_some();
        if receiver.is_idle() {
            return self.receivers.remove(&forgotten).is_some();
        }
        self.give_turn(forgotten, now);
        false
    }

    /// Does not read the subscription before that time: its deliveries cannot be sent, or their results not be recorded.
    pub(crate) fn block(&mut self, subscription: Uuid, until: Instant, now: Instant) {
        let Some(receiver) = self.receivers.get_mut(&subscription) else { return };
        receiver.blocked_until = Some(until);
        if let Some(before) = receiver.due_at.take() {
            self.later.remove(&(before, subscription));
        }
        let left = receiver.leave_waiting(None);
        let (key, slot) = ((receiver.tenant, subscription), receiver.slot);
        self.held -= left;
        self.waiting -= left;
        self.due(key, slot, until, now);
    }

    /// Takes a delivery that was read: to attempt it now, or as the next one of its subscription. One that cannot be attempted soon
    /// is left to the database. Nothing happens if this program has it already.
    pub(crate) fn offer(&mut self, delivery: Delivery, slot: i16, now: Instant) -> Option<Started> {
        let (tenant, subscription) = (delivery.tenant_id, delivery.subscription_id);
        let receiver = self.receivers.entry(subscription).or_insert_with(|| Receiver::new(tenant, slot, now));
        receiver.last_used = now;
        if receiver.held.contains_key(&delivery.number) {
            return None;
        }
        let (pace, can_run) = (receiver.pace, receiver.running < receiver.limit);
        let can_wait = pace == Pace::Prompt
            && receiver.waiting.len() < READ_AHEAD * receiver.limit
            && self.held < HELD * self.most;
        let starts = can_run && receiver.waiting.is_empty() && self.admits(tenant, pace);
        if !starts && !can_wait {
            self.due((tenant, subscription), slot, now, now);
            return None;
        }
        let receiver = self.receivers.get_mut(&subscription)?;
        receiver.held.insert(delivery.number, false);
        self.held += 1;
        if starts {
            return Some(self.start(delivery, now));
        }
        receiver.waiting.push_back((now, delivery));
        self.waiting += 1;
        self.give_turn(subscription, now);
        None
    }

    /// Ends an attempt. `has_responded` is also true if nothing was sent, which says nothing about the receiver.
    pub(crate) fn finish(&mut self, attempt: u64, has_responded: bool, now: Instant) {
        let Some(Running { subscription, pace, began }) = self.running.remove(&attempt) else { return };
        let Some(receiver) = self.receivers.get_mut(&subscription) else { return };
        receiver.running -= 1;
        receiver.last_used = now;
        let is_prompt = has_responded && now - began <= PROMPT;
        receiver.pace = if is_prompt { Pace::Prompt } else { Pace::Slow };
        receiver.limit = if has_responded { LIMIT_MAX.min(receiver.limit + 1) } else { 1 };
        let tenant = receiver.tenant;
        self.load(tenant, pace, -1);
        self.give_turn(subscription, now);
        self.read_ahead(subscription, now);
    }

    /// Forgets a delivery whose attempt is on record; while its subscription is read, once that has ended.
    pub(crate) fn release(&mut self, subscription: Uuid, number: i64) {
        let Some(receiver) = self.receivers.get_mut(&subscription) else { return };
        if receiver.reading.is_some() {
            receiver.recorded.push(number);
        } else if let Some(is_locked) = receiver.held.remove(&number) {
            self.held -= 1;
            let tenant = receiver.tenant;
            if is_locked { self.load_of(tenant, -1) } else { self.unrecorded(tenant, -1) }
        }
    }

    /// Counts a delivery whose attempt cannot be recorded yet as an attempt of its tenant, until it is released. It takes no attempt
    /// from others: many may have ended before the first of them is found to be locked.
    pub(crate) fn lock(&mut self, subscription: Uuid, number: i64) {
        let Some(receiver) = self.receivers.get_mut(&subscription) else { return };
        if let Some(is_locked @ false) = receiver.held.get_mut(&number) {
            *is_locked = true;
            let tenant = receiver.tenant;
            self.unrecorded(tenant, -1);
            self.load_of(tenant, 1);
        }
    }

    /// Starts attempts of deliveries that wait here, and decides which subscriptions to read, in turn.
    pub(crate) fn next(&mut self, now: Instant) -> Vec<Started> {
        while let Some((at, subscription)) = self.later.first().copied()
            && at <= now
        {
            self.later.pop_first();
            self.give_turn(subscription, now);
        }
        let mut started = Vec::new();
        // Twice, because the pace of a subscription may have changed since it got its turn.
        for pace in [Pace::Prompt, Pace::Slow, Pace::Prompt] {
            while let Some(subscription) = self.next_turn(pace) {
                let Some(receiver) = self.receivers.get_mut(&subscription) else { continue };
                receiver.has_turn = false;
                if receiver.pace == pace
                    && receiver.running < receiver.limit
                    && let Some((_, delivery)) = receiver.waiting.pop_front()
                {
                    self.waiting -= 1;
                    started.push(self.start(delivery, now));
                } else if receiver.pace == pace && receiver.is_due(now) && receiver.reading.is_none() {
                    self.begin_reading(subscription);
                }
                self.give_turn(subscription, now);
            }
        }
        started
    }

    /// The next subscriptions to be read, at most that many, which share the room for deliveries that is left.
    pub(crate) fn next_reads(&mut self, most: usize, now: Instant) -> Vec<Read> {
        let count = self.to_read.len().min(most);
        let room = (HELD * self.most).saturating_sub(self.held + self.reading) / (count + 1);
        let mut reads = Vec::new();
        for subscription in self.to_read.drain(..count) {
            let Some(receiver) = self.receivers.get_mut(&subscription) else { continue };
            if receiver.is_due(now) {
                receiver.due_at = None;
            }
            let ahead = if receiver.pace == Pace::Prompt { READ_AHEAD * receiver.limit } else { 0 };
            let wanted = (receiver.limit + ahead).saturating_sub(receiver.running + receiver.waiting.len());
            let most = wanted.min(room).max(1);
            self.reading += most;
            let held = receiver.held.keys().copied().collect();
            reads.push(Read { subscription_id: subscription, slot: receiver.slot, most, held });
        }
        reads
    }

    /// Ends the reading of a subscription. Returns the numbers of what was recorded meanwhile.
    pub(crate) fn finish_read(&mut self, read: &Read, now: Instant) -> Vec<(Uuid, i64)> {
        self.reading -= read.most;
        let Some(receiver) = self.receivers.get_mut(&read.subscription_id) else { return Vec::new() };
        let recorded = std::mem::take(&mut receiver.recorded);
        if let Some(pace) = receiver.reading.take() {
            let tenant = receiver.tenant;
            self.load(tenant, pace, -1);
        }
        for number in &recorded {
            self.release(read.subscription_id, *number);
        }
        self.give_turn(read.subscription_id, now);
        recorded.into_iter().map(|number| (read.subscription_id, number)).collect()
    }

    /// Forgets deliveries of slots that do not satisfy `is_open`, except those that are attempted or to be recorded. Nothing of
    /// such slots may be offered any more.
    pub(crate) fn close(&mut self, is_open: impl Fn(i16) -> bool) {
        for (subscription, receiver) in &mut self.receivers {
            if is_open(receiver.slot) {
                continue;
            }
            if let Some(at) = receiver.due_at.take() {
                self.later.remove(&(at, *subscription));
            }
            let left = receiver.leave_waiting(None);
            self.held -= left;
            self.waiting -= left;
        }
    }

    /// Counts attempts that take long as slow, leaves to the database what has waited for too long, and forgets idle receivers.
    pub(crate) fn tidy(&mut self, now: Instant) {
        for Running { subscription, pace, began } in self.running.values_mut() {
            if *pace == Pace::Prompt && now - *began > PROMPT {
                *pace = Pace::Slow;
                self.load.slow += 1;
                if let Some(receiver) = self.receivers.get_mut(subscription) {
                    receiver.pace = Pace::Slow;
                    self.loads.entry(receiver.tenant).or_default().slow += 1;
                }
            }
        }
        let mut left = Vec::new();
        for (subscription, receiver) in &mut self.receivers {
            let count = receiver.leave_waiting(Some(now - WAIT_MAX));
            if count > 0 {
                self.held -= count;
                self.waiting -= count;
                left.push(((receiver.tenant, *subscription), receiver.slot));
            }
        }
        for (key, slot) in left {
            self.due(key, slot, now, now);
        }
        let is_full = self.receivers.len() >= KNOWN_MAX;
        self.receivers.retain(|_, receiver| {
            !receiver.is_idle() || !is_full && now.duration_since(receiver.last_used) < FORGET_AFTER
        });
    }

    /// When the next delivery that is known is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    /// The number of deliveries of each slot that this program has.
    pub(crate) fn held_by_slot(&self) -> HashMap<i16, usize> {
        let mut held = HashMap::new();
        for receiver in self.receivers.values().filter(|receiver| !receiver.held.is_empty()) {
            *held.entry(receiver.slot).or_default() += receiver.held.len();
        }
        held
    }

    /// How many new deliveries may be read completely.
    pub(crate) const fn room(&self) -> usize {
        if self.load.unrecorded < UNRECORDED * self.most { self.most.saturating_sub(self.load.all) } else { 0 }
    }

    fn start(&mut self, delivery: Delivery, now: Instant) -> Started {
        let attempt = self.next_attempt;
        self.next_attempt += 1;
        let (tenant, subscription) = (delivery.tenant_id, delivery.subscription_id);
        let mut pace = Pace::Slow;
        if let Some(receiver) = self.receivers.get_mut(&subscription) {
            receiver.running += 1;
            pace = receiver.pace;
        }
        self.load(tenant, pace, 1);
        self.unrecorded(tenant, 1);
        self.running.insert(attempt, Running { subscription, pace, began: now });
        Started { attempt, delivery }
    }

    /// Whether one more attempt of the tenant may begin.
    fn admits(&self, tenant: Uuid, pace: Pace) -> bool {
        let own = self.loads.get(&tenant).copied().unwrap_or_default();
        let free = self.room();
        let free_slow = self.most.div_ceil(2).saturating_sub(self.load.slow);
        2 * own.all < free && own.unrecorded < HELD * self.most && (pace == Pace::Prompt || own.slow < free_slow)
    }

    fn next_turn(&mut self, pace: Pace) -> Option<Uuid> {
        let mut turns = std::mem::take(&mut self.turns[pace as usize]);
        let has_room = self.room() > 0;
        let next = if has_room { turns.next(|tenant| self.admits(tenant, pace)) } else { None };
        self.turns[pace as usize] = turns;
        next
    }

    /// Gives the subscription a turn if it has something to attempt or to read, and does not have one.
    fn give_turn(&mut self, subscription: Uuid, now: Instant) {
        let Some(receiver) = self.receivers.get_mut(&subscription) else { return };
        let can_read = receiver.is_due(now) && receiver.reading.is_none();
        let has_work = !receiver.waiting.is_empty() || can_read;
        if has_work && !receiver.has_turn && receiver.running < receiver.limit {
            receiver.has_turn = true;
            self.turns[receiver.pace as usize].push(receiver.tenant, subscription);
        }
    }

    /// Reads further deliveries of a prompt receiver before it has none left.
    fn read_ahead(&mut self, subscription: Uuid, now: Instant) {
        let Some(receiver) = self.receivers.get_mut(&subscription) else { return };
        let is_low = receiver.waiting.len() < receiver.limit;
        if receiver.pace == Pace::Prompt && is_low && receiver.is_due(now) && receiver.reading.is_none() {
            self.begin_reading(subscription);
        }
    }

    fn begin_reading(&mut self, subscription: Uuid) {
        let Some(receiver) = self.receivers.get_mut(&subscription) else { return };
        let (tenant, pace) = (receiver.tenant, receiver.pace);
        receiver.reading = Some(pace);
        self.load(tenant, pace, 1);
        self.to_read.push_back(subscription);
    }

    /// Counts one more attempt or read of the tenant, or one less.
    fn load(&mut self, tenant: Uuid, pace: Pace, change: isize) {
        self.load.all = self.load.all.saturating_add_signed(change);
        if pace == Pace::Slow {
            let own = self.loads.entry(tenant).or_default();
            own.slow = own.slow.saturating_add_signed(change);
            self.load.slow = self.load.slow.saturating_add_signed(change);
        }
        self.load_of(tenant, change);
    }

    fn load_of(&mut self, tenant: Uuid, change: isize) {
        let own = self.loads.entry(tenant).or_default();
        own.all = own.all.saturating_add_signed(change);
        self.forget_load(tenant);
    }

    /// Counts one more attempt of the tenant that is not on record, or one less.
    fn unrecorded(&mut self, tenant: Uuid, change: isize) {
        self.load.unrecorded = self.load.unrecorded.saturating_add_signed(change);
        let own = self.loads.entry(tenant).or_default();
        own.unrecorded = own.unrecorded.saturating_add_signed(change);
        self.forget_load(tenant);
    }

    fn forget_load(&mut self, tenant: Uuid) {
        if self.loads.get(&tenant).is_some_and(|own| own.all == 0 && own.unrecorded == 0) {
            self.loads.remove(&tenant);
        }
    }
}

#[cfg(test)]
mod tests;
