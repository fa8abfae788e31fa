//! What was published and is not applied yet: bounded, and shared fairly among agencies.
//!
//! A share is held from before the publish until the worker has replied, whatever the caller does meanwhile: who hangs
//! up does not get another one for it. Shares are counted in units: an event or a records write, or 4 KiB of body where
//! that is more. The bound follows the rate at which the worker applies: what waits here may not take longer than
//! `CONNECT_BACKLOG_TARGET`. By Little's law that holds for any number of ingests without their talking to each other:
//! the queue is worked off in its order, so each ingest's part of the rate is its part of the queue, and when each holds
//! no more than its rate times the target, so do all together.
//!
//! An agency may hold its part of the bound: an equal one for each agency that has something waiting, and one for the
//! agency that comes next. A small request of an agency with nothing waiting is admitted beyond the bound, too, so that
//! the bursts of however many others cannot shut it out.

mod rate;
mod report;

pub use report::report;

use crate::bound::Bound;
use crate::error::Refusal;
use crate::store::intake_pressure::Pressure;
use common::broker::{Hold, Queue};
use common::event::BATCH_MAX;
use common::metrics::{BACKLOG, BACKLOG_LIMIT};
use common::model::TenantId;
use memchr::memmem;
use rate::Rate;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Bytes of a unit.
const UNIT_BYTES: usize = 4 * 1024;
/// Part of the bound that is kept for small requests of agencies that have nothing waiting, beside the bound itself: it is
/// there also while more waits than the bound, because the worker has slowed down. Most units of such a request.
const RESERVE: f64 = 0.5;
const SMALL: u64 = 10;
/// Age at which a unit no longer counts as waiting for the worker's rate: its message was lost or dead-lettered.
const LOST_AFTER: Duration = Duration::from_secs(60);
/// Longest wait that a caller is asked for.
const RETRY_AFTER_MAX: u32 = 30;
/// Most agencies that are reported at once as under pressure.
const PRESSURES_MAX: usize = 100;
/// Units a second that are assumed before the worker has replied, by queue: about what one worker does on two cores.
const EVENTS_RATE: f64 = 16_000.0;
const WRITES_RATE: f64 = 1_000.0;

/// The backlog of one queue; cheap to clone.
#[derive(Clone, Debug)]
pub struct Backlog(Arc<Shared>);

/// A part of the backlog. Given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    backlog: Backlog,
    tenant: TenantId,
    number: u64,
    units: u64,
    is_reserved: bool,
}

#[derive(Debug)]
struct Shared {
    queue: Queue,
    target: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    rate: Rate,
    total: u64,
    /// Units of requests that were admitted to what is kept for agencies that had nothing waiting; not in `total`.
    reserved: u64,
    /// Has an entry only for agencies that have something waiting.
    tenants: HashMap<TenantId, u64>,
    /// When each share was taken, by its number.
    taken: BTreeMap<u64, Instant>,
    next: u64,
    /// Requests refused since they were reported, by agency.
    refused: HashMap<TenantId, u64>,
}

/// What an agency is refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Full {
    bound: Bound,
    retry_after: u32,
}

impl Backlog {
    /// An empty backlog of `queue`, of which nothing is to wait for longer than `target`.
    pub fn new(queue: Queue, target: Duration) -> Self {
        let rate = if queue == Queue::Events { EVENTS_RATE } else { WRITES_RATE };
        let state = State {
            rate: Rate::new(rate, Instant::now()),
            total: 0,
            reserved: 0,
            tenants: HashMap::new(),
            taken: BTreeMap::new(),
            next: 0,
            refused: HashMap::new(),
        };
        Self(Arc::new(Shared { queue, target, state: Mutex::new(state) }))
    }

    /// Takes a share for work of so many units. To be asked for before the signature is used up: what is refused here may
    /// be sent again as it is. 503 `overloaded`, with a `Retry-After` after which the agency's work will have been applied.
    pub fn admit(&self, tenant: TenantId, units: u64) -> Result<Share, Refusal> {
        let mut state = self.state();
        match state.admit(tenant, units, Instant::now(), self.0.target) {
            Ok((number, is_reserved)) => {
                self.observe(&state);
                drop(state);
                Ok(Share { backlog: self.clone(), tenant, number, units, is_reserved })
            }
            Err(Full { bound, retry_after }) => {
                drop(state);
                Err(bound.refuse_for(retry_after))
            }
        }
    }

    /// What waits here.
    pub fn queue(&self) -> Queue {
        self.0.queue
    }

    /// The agencies whose requests were refused since the last call.
    pub fn take_pressures(&self) -> Vec<Pressure> {
        let mut state = self.state();
        let refused = std::mem::take(&mut state.refused);
        let pressure = |(tenant, refused)| {
            let waiting = state.tenants.get(&tenant).copied().unwrap_or(0);
            Pressure { tenant, waiting, refused }
        };
        refused.into_iter().map(pressure).collect()
    }

    fn observe(&self, state: &State) {
        let queue = self.0.queue.as_str();
        metrics::gauge!(BACKLOG, "queue" => queue).set((state.total + state.reserved) as f64);
        metrics::gauge!(BACKLOG_LIMIT, "queue" => queue).set(state.limit(self.0.target));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Gives the share's number, and whether it is of what is reserved.
    fn admit(
        &mut self,
        tenant: TenantId,
        units: u64,
        now: Instant,
        target: Duration,
    ) -> Result<(u64, bool), Full> {
        self.measure(now);
        let limit = self.limit(target);
        let own = self.tenants.get(&tenant).copied().unwrap_or(0);
        let active = self.tenants.len() + usize::from(own == 0);
        let share = limit / (active + 1) as f64;
        let is_free = self.total == 0 || (self.total + units) as f64 <= limit;
        let is_reserved = !is_free
            && own == 0
            && units <= SMALL
            && (self.reserved == 0 || (self.reserved + units) as f64 <= limit * RESERVE);
        let full = if own > 0 && (own + units) as f64 > share {
            Some(Bound::BacklogShare)
        } else {
            (!is_free && !is_reserved).then_some(Bound::Backlog)
        };
        if let Some(bound) = full {
            if self.refused.len() < PRESSURES_MAX || self.refused.contains_key(&tenant) {
                *self.refused.entry(tenant).or_insert(0) += 1;
            }
            let seconds = own.max(1) as f64 * active as f64 / self.rate.per_second();
            return Err(Full { bound, retry_after: (seconds.ceil() as u32).clamp(1, RETRY_AFTER_MAX) });
        }
        *if is_reserved { &mut self.reserved } else { &mut self.total } += units;
        *self.tenants.entry(tenant).or_insert(0) += units;
        self.next += 1;
        self.taken.insert(self.next, now);
        Ok((self.next, is_reserved))
    }

    fn give_back(&mut self, share: &Share) {
        self.taken.remove(&share.number);
        *if share.is_reserved { &mut self.reserved } else { &mut self.total } -= share.units;
        if let Some(waiting) = self.tenants.get_mut(&share.tenant) {
            *waiting -= share.units;
            if *waiting == 0 {
                self.tenants.remove(&share.tenant);
            }
        }
    }

    fn measure(&mut self, now: Instant) {
        let waits_since = self.taken.values().find(|taken| **taken + LOST_AFTER > now).copied();
        self.rate.measure(now, waits_since);
    }

    /// Units that may wait.
    fn limit(&self, target: Duration) -> f64 {
        self.rate.per_second() * target.as_secs_f64()
    }
}

impl Share {
    /// Makes the share at least that large, where the work turned out to be more than was estimated.
    #[must_use]
    pub fn at_least(mut self, units: u64) -> Self {
        let more = units.saturating_sub(self.units);
        if more > 0 {
            let mut state = self.backlog.state();
            *if self.is_reserved { &mut state.reserved } else { &mut state.total } += more;
            *state.tenants.entry(self.tenant).or_insert(0) += more;
            drop(state);
            self.units += more;
        }
        self
    }
}

impl Hold for Share {
    fn replied(&self) {
        self.backlog.state().rate.count(self.units);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut state = self.backlog.state();
        state.give_back(self);
        state.measure(Instant::now());
        self.backlog.observe(&state);
    }
}

/// Units of a body with so many events or writes.
pub fn units(count: usize, bytes: usize) -> u64 {
    count.max(bytes.div_ceil(UNIT_BYTES)).max(1) as u64
}

/// Units of a batch that has not been read: each event names its id once.
pub fn estimate(body: &[u8]) -> u64 {
    units(memmem::find_iter(body, br#""eventId""#).take(BATCH_MAX).count(), body.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const TARGET: Duration = Duration::from_millis(600);

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    /// A backlog with a limit of 600 units.
    fn backlog() -> Backlog {
        Backlog::new(Queue::Records, TARGET)
    }

    fn take(backlog: &Backlog, of: u128, units: u64) -> Vec<Share> {
        std::iter::from_fn(|| backlog.admit(tenant(of), units).ok()).collect()
    }

    #[test]
    fn an_agency_alone_may_hold_half_and_two_a_third_each_and_the_rest_is_for_the_next() {
        let backlog = backlog();
        let first = take(&backlog, 1, 10);
        assert_eq!(first.len(), 30);
        let second = take(&backlog, 2, 10);
        assert_eq!(second.len(), 20);
        assert_eq!(take(&backlog, 1, 10).len(), 0, "it holds more than its part by now");
        drop(first);
        assert_eq!(take(&backlog, 1, 10).len(), 20);
        drop(second);
        let state = backlog.state();
        assert!(state.tenants.is_empty() && state.taken.is_empty());
        assert_eq!(state.total, 0);
    }

    #[test]
    fn small_requests_of_agencies_with_nothing_waiting_are_admitted_beside_the_bound_up_to_half_of_it() {
        let backlog = backlog();
        let held: Vec<Share> = (1..=60).filter_map(|of| backlog.admit(tenant(of), 10).ok()).collect();
        assert_eq!(held.len(), 60);
        assert_eq!(backlog.state().total, 600, "the bound is reached");
        assert!(backlog.admit(tenant(100), SMALL + 1).is_err(), "only small requests are admitted beyond it");
        let quiet = backlog.admit(tenant(100), 10).unwrap();
        assert!(backlog.admit(tenant(100), 1).is_err(), "it has something waiting now");
        let beyond: Vec<Share> = (200..300).filter_map(|of| backlog.admit(tenant(of), 10).ok()).collect();
        assert_eq!((beyond.len(), backlog.state().reserved), (29, 300));
        drop(held);
        assert_eq!(backlog.state().total, 0);
        drop((quiet, beyond));
        assert_eq!(backlog.state().reserved, 0);
    }

    #[test]
    fn a_share_grows_to_what_the_work_turned_out_to_be() {
        let backlog = backlog();
        let share = backlog.admit(tenant(1), 1).unwrap().at_least(300).at_least(5);
        assert_eq!(backlog.state().total, 300);
        assert!(backlog.admit(tenant(1), 1).is_err());
        drop(share);
        assert_eq!(backlog.state().total, 0);
    }

    #[test]
    fn the_wait_that_is_asked_for_fits_what_the_agency_has_waiting() {
        let backlog = backlog();
        let (mut state, now) = (backlog.state(), Instant::now());
        state.rate = Rate::new(100.0, now);
        assert_eq!(state.admit(tenant(1), 1_000, now, TARGET), Ok((1, false)));
        let full = state.admit(tenant(1), 1, now, TARGET);
        assert_eq!(full, Err(Full { bound: Bound::BacklogShare, retry_after: 10 }));
    }

    #[test]
    fn agencies_that_were_refused_are_reported_once() {
        let backlog = backlog();
        let held = take(&backlog, 1, 100);
        let pressure = Pressure { tenant: tenant(1), waiting: 300, refused: 1 };
        assert_eq!(backlog.take_pressures(), [pressure]);
        assert_eq!(backlog.take_pressures(), []);
        drop(held);
    }

    #[test]
    fn a_batch_is_estimated_by_its_event_ids_and_its_bytes() {
        assert_eq!(estimate(br#"{"events":[{"eventId":"a"},{"eventId":"b"}]}"#), 2);
        assert_eq!(estimate(b"{}"), 1);
        assert_eq!(estimate(&vec![b' '; 5 * UNIT_BYTES + 1]), 6);
        assert_eq!(estimate(&br#""eventId""#.repeat(1_000)), BATCH_MAX as u64);
    }
}
