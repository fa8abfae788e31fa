//! What is noted and not written yet. Pure.

use crate::broker::Queue;
use crate::model::TenantId;
use chrono::{DateTime, Utc};
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

/// Maximum number of tenants whose counts are kept apart between two writes; those of further ones count for all tenants only.
const TENANTS_MAX: usize = 10_000;
/// Maximum number of causes of failures that are counted between two writes; further ones are not.
const CAUSES_MAX: usize = 10_000;
/// Idle queues are written only every sixth time, because only `observed_at` changes.
const IDLE_WRITES: u32 = 6;

/// Counts of a tenant, or of all tenants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ActivityCounts {
    pub(super) accepted: u64,
    pub(super) refused: u64,
    pub(super) applied: u64,
    pub(super) failed: u64,
    pub(super) delivered: u64,
    pub(super) undelivered: u64,
}

impl ActivityCounts {
    const NONE: Self = Self { accepted: 0, refused: 0, applied: 0, failed: 0, delivered: 0, undelivered: 0 };

    const fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.applied += other.applied;
        self.failed += other.failed;
        self.delivered += other.delivered;
        self.undelivered += other.undelivered;
    }
}

/// What succeeds or fails, of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Attempts at the receiver of a subscription.
    Receiver(Uuid),
    /// Events that fail with an error, such as `contact_not_found`.
    Event(String),
    /// Responses with a status from 500 on, by their code, such as `overloaded`.
    Response(String),
}

/// As it is stored: its kind, a colon, and which it is.
impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Receiver(id) => write!(f, "receiver:{id}"),
            Self::Event(error) => write!(f, "event:{error}"),
            Self::Response(code) => write!(f, "response:{code}"),
        }
    }
}

/// Counts of a cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CauseCounts {
    pub(super) failed: u64,
    pub(super) succeeded: u64,
    /// Why the last attempt at a receiver failed; of events, `KEY, request ID` of the last one.
    pub(super) last_error: Option<String>,
}

impl CauseCounts {
    fn add(&mut self, newer: Self) {
        self.failed += newer.failed;
        self.succeeded += newer.succeeded;
        self.last_error = newer.last_error.or_else(|| self.last_error.take());
    }
}

/// What the broker said of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueObservation {
    pub(crate) at: DateTime<Utc>,
    pub(crate) ready: u32,
    pub(crate) consumers: u32,
    pub(crate) dead: u32,
}

/// What is known of a queue since the last write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueNotes {
    /// The last observation.
    pub(super) last: Option<QueueObservation>,
    /// Maximum number of messages that waited at an observation.
    pub(super) max_ready: u32,
    /// The time of the last observation at which none waited.
    pub(super) empty_at: Option<DateTime<Utc>>,
    /// When the newest handled message was published.
    pub(super) newest_handled_published_at: Option<DateTime<Utc>>,
}

impl QueueNotes {
    const NONE: Self = Self { last: None, max_ready: 0, empty_at: None, newest_handled_published_at: None };

    /// Whether nothing but the time has changed since the observation that was written last.
    fn is_idle(&self, written: Option<QueueObservation>) -> bool {
        let seen = |seen: QueueObservation| (seen.ready, seen.consumers, seen.dead);
        let is_same = self.last.is_none() || self.last.map(seen) == written.map(seen);
        self.max_ready == 0 && self.newest_handled_published_at.is_none() && is_same
    }

    fn merge(&mut self, older: &Self) {
        self.last = self.last.or(older.last);
        self.max_ready = self.max_ready.max(older.max_ready);
        self.empty_at = self.empty_at.max(older.empty_at);
        self.newest_handled_published_at = self.newest_handled_published_at.max(older.newest_handled_published_at);
    }
}

/// Counts and queues since the last write.
#[derive(Debug)]
pub(super) struct PendingActivity {
    all: ActivityCounts,
    tenants: BTreeMap<TenantId, ActivityCounts>,
    causes: BTreeMap<(TenantId, Cause), CauseCounts>,
    queues: [QueueNotes; Queue::ALL.len()],
    /// The observations that were written last.
    written: [Option<QueueObservation>; Queue::ALL.len()],
    idle_writes: u32,
}

/// What one statement writes.
#[derive(Debug, Default)]
pub(super) struct DueNotes {
    pub(super) all: ActivityCounts,
    /// In the order of tenants, in which the rows are locked.
    pub(super) tenants: BTreeMap<TenantId, ActivityCounts>,
    pub(super) causes: BTreeMap<(TenantId, Cause), CauseCounts>,
    pub(super) queues: Vec<(Queue, QueueNotes)>,
}

impl DueNotes {
    pub(super) fn is_empty(&self) -> bool {
        self.all == ActivityCounts::NONE && self.causes.is_empty() && self.queues.is_empty()
    }
}

impl PendingActivity {
    pub(super) const fn new() -> Self {
        let queues = [QueueNotes::NONE; Queue::ALL.len()];
        let written = [None; Queue::ALL.len()];
        Self {
            all: ActivityCounts::NONE,
            tenants: BTreeMap::new(),
            causes: BTreeMap::new(),
            queues,
            written,
            idle_writes: 0,
        }
    }

    pub(super) fn count(&mut self, tenant: TenantId, counts: ActivityCounts) {
        self.all.add(counts);
        if self.tenants.len() < TENANTS_MAX || self.tenants.contains_key(&tenant) {
            self.tenants.entry(tenant).or_default().add(counts);
        }
    }

    /// Counts for a cause of a tenant what is newer, or for what was put back older, than what is counted already.
    pub(super) fn count_cause(&mut self, key: (TenantId, Cause), counts: CauseCounts, is_newer: bool) {
        if self.causes.len() < CAUSES_MAX || self.causes.contains_key(&key) {
            let counted = self.causes.entry(key).or_default();
            let newer = if is_newer { counts } else { std::mem::replace(counted, counts) };
            counted.add(newer);
        }
    }

    pub(super) fn handled(&mut self, queue: Queue, published_at: DateTime<Utc>) {
        let notes = &mut self.queues[queue as usize];
        notes.newest_handled_published_at = notes.newest_handled_published_at.max(Some(published_at));
    }

    pub(super) fn observe(&mut self, queue: Queue, observation: QueueObservation) {
        let notes = &mut self.queues[queue as usize];
        notes.last = Some(observation);
        notes.max_ready = notes.max_ready.max(observation.ready);
        if observation.ready == 0 {
            notes.empty_at = Some(observation.at);
        }
    }

    /// Takes what is to be written now: all counts, and the queues unless nothing has changed for a short time.
    pub(super) fn take_due(&mut self) -> DueNotes {
        let all = std::mem::take(&mut self.all);
        let tenants = std::mem::take(&mut self.tenants);
        let causes = std::mem::take(&mut self.causes);
        self.idle_writes += 1;
        let is_idle = self.queues.iter().zip(self.written).all(|(notes, written)| notes.is_idle(written));
        if is_idle && self.idle_writes < IDLE_WRITES {
            return DueNotes { all, tenants, causes, queues: Vec::new() };
        }
        self.idle_writes = 0;
        let mut queues = Vec::new();
        for queue in Queue::ALL {
            let notes = &mut self.queues[queue as usize];
            // Without a new observation the last written one is repeated; before the first one nothing is written.
            notes.last = notes.last.or(self.written[queue as usize]);
            if notes.last.is_some() {
                queues.push((queue, std::mem::take(notes)));
            }
        }
        for (queue, notes) in &queues {
            self.written[*queue as usize] = notes.last;
        }
        queues.sort_unstable_by_key(|(queue, _)| queue.as_str());
        DueNotes { all, tenants, causes, queues }
    }

    /// Keeps what could not be written for the next time.
    pub(super) fn put_back(&mut self, due: DueNotes) {
        for (tenant, counts) in due.tenants {
            if self.tenants.len() < TENANTS_MAX || self.tenants.contains_key(&tenant) {
                self.tenants.entry(tenant).or_default().add(counts);
            }
        }
        self.all.add(due.all);
        for (key, counts) in due.causes {
            self.count_cause(key, counts, false);
        }
        for (queue, notes) in due.queues {
            self.written[queue as usize] = None;
            self.queues[queue as usize].merge(&notes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(applied: u64) -> ActivityCounts {
        ActivityCounts { applied, ..ActivityCounts::default() }
    }

    fn observation(second: i64, ready: u32) -> QueueObservation {
        QueueObservation { at: DateTime::from_timestamp(second, 0).unwrap(), ready, consumers: 1, dead: 0 }
    }

    #[test]
    fn counts_of_a_tenant_count_for_all_and_survive_a_failed_write() {
        let (mut notes, tenant) = (PendingActivity::new(), TenantId(Uuid::from_u128(1)));
        notes.count(tenant, applied(2));
        let due = notes.take_due();
        assert_eq!((due.all, due.tenants[&tenant]), (applied(2), applied(2)));
        notes.count(tenant, applied(3));
        notes.put_back(due);
        assert_eq!(notes.take_due().tenants[&tenant], applied(5));
        assert!(notes.take_due().is_empty());
    }

    #[test]
    fn the_numbers_of_tenants_and_causes_are_bounded() {
        let mut notes = PendingActivity::new();
        for number in 0..TENANTS_MAX.max(CAUSES_MAX) as u128 + 5 {
            let tenant = TenantId(Uuid::from_u128(number));
            notes.count(tenant, applied(1));
            notes.count_cause((tenant, Cause::Receiver(tenant.0)), CauseCounts::default(), true);
        }
        let due = notes.take_due();
        assert_eq!((due.tenants.len(), due.all), (TENANTS_MAX, applied(TENANTS_MAX as u64 + 5)));
        assert_eq!(due.causes.len(), CAUSES_MAX);
    }

    #[test]
    fn a_cause_keeps_its_last_error_when_a_write_failed() {
        let (mut notes, key) = (PendingActivity::new(), (TenantId(Uuid::nil()), Cause::Receiver(Uuid::nil())));
        let failed = |error: &str| CauseCounts { failed: 1, succeeded: 0, last_error: Some(error.to_owned()) };
        notes.count_cause(key.clone(), failed("older"), true);
        let due = notes.take_due();
        assert!(!due.is_empty() && notes.take_due().is_empty());
        notes.count_cause(key.clone(), failed("newer"), true);
        notes.count_cause(key.clone(), CauseCounts { succeeded: 3, ..CauseCounts::default() }, true);
        notes.put_back(due);
        let expected = CauseCounts { failed: 2, succeeded: 3, last_error: Some("newer".to_owned()) };
        assert_eq!(notes.take_due().causes[&key], expected);
    }

    #[test]
    fn a_queue_keeps_its_last_observation_its_most_messages_and_when_it_was_empty() {
        let mut notes = PendingActivity::new();
        for (second, ready) in [(1, 7), (2, 0), (3, 4)] {
            notes.observe(Queue::Events, observation(second, ready));
        }
        notes.handled(Queue::Events, observation(9, 0).at);
        notes.handled(Queue::Events, observation(8, 0).at);
        let due = notes.take_due();
        let [(Queue::Events, events)] = due.queues[..] else { panic!("{due:?}") };
        let expected = QueueNotes {
            last: Some(observation(3, 4)),
            max_ready: 7,
            empty_at: Some(observation(2, 0).at),
            newest_handled_published_at: Some(observation(9, 0).at),
        };
        assert_eq!(events, expected);
        notes.put_back(due);
        notes.observe(Queue::Events, observation(4, 1));
        let due = notes.take_due();
        assert_eq!(due.queues, [(Queue::Events, QueueNotes { last: Some(observation(4, 1)), ..expected })]);
    }

    #[test]
    fn idle_queues_are_written_seldom() {
        let mut notes = PendingActivity::new();
        let written = (0..12).filter(|second| {
            notes.observe(Queue::Crm, observation(*second, 0));
            !notes.take_due().is_empty()
        });
        assert_eq!(written.count(), 2, "the first observation, and every sixth after it");
        notes.observe(Queue::Crm, QueueObservation { dead: 1, ..observation(12, 0) });
        assert!(!notes.take_due().is_empty(), "a change is written at once");
        notes.observe(Queue::Crm, observation(13, 1));
        assert!(!notes.take_due().is_empty(), "messages that wait are written at once");
    }
}
