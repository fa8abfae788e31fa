//! Decides which requests are admitted to a backlog, and counts them. Pure.

use super::rate::{Point, Rate};
use super::units::{BATCH_UNITS_MAX, EVENT_UNITS_MAX};
use crate::overload::OverloadReason;
use common::model::TenantId;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// The reserve for tenants with little waiting, as a part of the limit. It is in addition to the limit, so that it is
/// available also when more than the limit waits because the worker has slowed down.
const RESERVE_FACTOR: f64 = 0.5;
/// While at most so many tenants have waiting work, a tenant that has none is always admitted with one event.
const GUARANTEED_TENANTS: usize = 1_000;
/// Maximum number of backlog units that a single tenant may hold, as a part of the first limit: the estimate of the rate may be too high when its
/// requests become more expensive. It does not grow with the limit: a worker that is
/// three times as fast as assumed applies it in a sixth of the target.
const TENANT_MAX_FACTOR: f64 = 0.5;
/// The longest time for which the share of a request without a reply is kept.
const UNREPLIED_HOLD_MAX: Duration = Duration::from_secs(60);
/// The longest `Retry-After`, in seconds.
const RETRY_AFTER_MAX: u32 = 30;
/// The most tenants in one report.
const PRESSURES_MAX: usize = 100;

/// An admitted request, as the backlog counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedRequest {
    pub(super) tenant: TenantId,
    /// In the order in which requests were admitted.
    pub(super) number: u64,
    pub(super) units: u64,
    is_reserved: bool,
}

/// Why a request is refused, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BacklogFull {
    pub(super) bound: OverloadReason,
    /// Seconds after which a retry may be admitted.
    pub(super) retry_after: u32,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) rate: Rate,
    tenant_max: f64,
    total: u64,
    /// Units of requests that were admitted to the reserve; not in `total`.
    reserved: u64,
    /// Units that wait, by tenant; without entries for tenants that have none.
    tenants: HashMap<TenantId, u64>,
    /// The requests that wait for a reply, by number.
    waiting: BTreeMap<u64, Point>,
    next: u64,
    /// The highest number that was replied to. Requests that were admitted before that one
    /// have left the queue, which is processed in order.
    replied: u64,
    /// Requests refused since they were reported, by tenant.
    refused: HashMap<TenantId, u64>,
}

impl State {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            tenant_max: rate.limit() * TENANT_MAX_FACTOR,
            total: 0,
            reserved: 0,
            tenants: HashMap::new(),
            waiting: BTreeMap::new(),
            next: 0,
            replied: 0,
            refused: HashMap::new(),
        }
    }

    pub(super) fn admit(
        &mut self,
        tenant: TenantId,
        units: u64,
        now: Instant,
    ) -> Result<CountedRequest, BacklogFull> {
        let begun = self.rate.begin(now);
        if let Some(oldest) = self.oldest() {
            self.rate.lower(now, oldest);
        }
        let own = self.waiting_of(tenant);
        let active = self.tenants.len() + usize::from(own == 0);
        let is_reserved = match self.decide(own, units, active) {
            Ok(is_reserved) => is_reserved,
            Err(bound) => {
                if self.refused.len() < PRESSURES_MAX || self.refused.contains_key(&tenant) {
                    *self.refused.entry(tenant).or_insert(0) += 1;
                }
                return Err(BacklogFull { bound, retry_after: self.retry_after(own, units, active) });
            }
        };
        *if is_reserved { &mut self.reserved } else { &mut self.total } += units;
        *self.tenants.entry(tenant).or_insert(0) += units;
        self.next += 1;
        self.waiting.insert(self.next, begun);
        Ok(CountedRequest { tenant, number: self.next, units, is_reserved })
    }

    /// Seconds after which a request of `units` that is refused now may be admitted: when the tenant's waiting work is applied
    /// beside that of `active` tenants, and the backlog is below the limit.
    fn retry_after(&self, own: u64, units: u64, active: usize) -> u32 {
        let excess = (self.units() + units) as f64 - self.rate.limit();
        let to_apply = (own.max(1) as f64 * active as f64).max(excess);
        ((to_apply / self.rate.per_second()).ceil() as u32).clamp(1, RETRY_AFTER_MAX)
    }

    /// Whether a tenant with `own` units waiting is admitted with `units` more, and if so, whether to the reserve. `active`
    /// tenants have something waiting, this one included.
    fn decide(&self, own: u64, units: u64, active: usize) -> Result<bool, OverloadReason> {
        let limit = self.rate.limit();
        let shares = (active + 1) as f64;
        if own > 0 && (own + units) as f64 > (limit / shares).min(self.tenant_max) {
            return Err(OverloadReason::BacklogShare);
        }
        // A tenant with nothing waiting may exceed the limit by a batch: where the limit is small, a batch would otherwise
        // never be admitted beside the small requests of others.
        let beyond = if own == 0 { BATCH_UNITS_MAX } else { 0 };
        let counted = units.saturating_sub(beyond).max(1);
        if self.total == 0 || (self.total + counted) as f64 <= limit {
            return Ok(false);
        }
        let reserve = limit * RESERVE_FACTOR;
        let is_in_reserve =
            (own + units) as f64 <= reserve / shares && (self.reserved + units) as f64 <= reserve;
        let is_guaranteed = own == 0 && units <= EVENT_UNITS_MAX && active <= GUARANTEED_TENANTS;
        if is_in_reserve || is_guaranteed { Ok(true) } else { Err(OverloadReason::Backlog) }
    }

    pub(super) fn replied(&mut self, admitted: &CountedRequest, now: Instant) {
        self.rate.count(admitted.units);
        let Some(&wait) = self.waiting.get(&admitted.number) else { return };
        self.rate.raise(now, wait);
        if admitted.number > self.replied {
            self.replied = admitted.number;
            self.rate.lower(now, wait);
        }
    }

    pub(super) fn release(&mut self, admitted: &CountedRequest) {
        self.waiting.remove(&admitted.number);
        *if admitted.is_reserved { &mut self.reserved } else { &mut self.total } -= admitted.units;
        if let Some(waiting) = self.tenants.get_mut(&admitted.tenant) {
            *waiting -= admitted.units;
            if *waiting == 0 {
                self.tenants.remove(&admitted.tenant);
            }
        }
    }

    /// How long to hold the share of a request whose caller got a response without a reply: until the whole backlog is
    /// applied, at the rate since the request was admitted.
    pub(super) fn unreplied_hold_time(&self, admitted: &CountedRequest, now: Instant) -> Duration {
        let begun = self.waiting.get(&admitted.number);
        let needed = begun.and_then(|begun| self.rate.time_for(self.units(), *begun, now));
        needed.map_or(UNREPLIED_HOLD_MAX, |needed| needed.min(UNREPLIED_HOLD_MAX))
    }

    /// How long to hold the share of a request whose connection to the broker broke: until the whole backlog is applied, and
    /// at least as long as the request has waited.
    pub(super) fn disconnected_hold(&self, admitted: &CountedRequest, now: Instant) -> Duration {
        let seconds = self.units() as f64 / self.rate.per_second();
        let needed = Duration::from_secs_f64(seconds.min(UNREPLIED_HOLD_MAX.as_secs_f64()));
        let waited = self.waiting.get(&admitted.number).map_or(Duration::ZERO, |begun| begun.age(now));
        needed.max(waited).min(UNREPLIED_HOLD_MAX)
    }

    /// Notes that a request will get no reply, so that its wait no longer counts for the rate.
    pub(super) fn end_wait(&mut self, admitted: &CountedRequest) {
        self.waiting.remove(&admitted.number);
    }

    /// All units of the backlog.
    pub(super) const fn units(&self) -> u64 {
        self.total + self.reserved
    }

    pub(super) fn waiting_of(&self, tenant: TenantId) -> u64 {
        self.tenants.get(&tenant).copied().unwrap_or(0)
    }

    /// The tenants whose requests were refused since the last call, and how many.
    pub(super) fn take_refused(&mut self) -> HashMap<TenantId, u64> {
        std::mem::take(&mut self.refused)
    }

    /// The oldest request that is still in the queue, as far as replies tell.
    fn oldest(&self) -> Option<Point> {
        self.waiting.range(self.replied + 1..).next().map(|(_, wait)| *wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const TARGET: Duration = Duration::from_millis(600);

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    /// A state with a limit of 600 units, and the time.
    fn state() -> (State, Instant) {
        let now = Instant::now();
        (State::new(Rate::new(1_000.0, TARGET, now)), now)
    }

    /// Takes shares of `units` units until one is refused.
    fn take(state: &mut State, of: u128, units: u64, now: Instant) -> Vec<CountedRequest> {
        std::iter::from_fn(|| state.admit(tenant(of), units, now).ok()).collect()
    }

    fn release(state: &mut State, shares: &[CountedRequest]) {
        shares.iter().for_each(|share| state.release(share));
    }

    #[test]
    fn a_tenant_alone_may_hold_half_and_two_a_third_each_and_the_rest_is_for_the_next() {
        let (mut state, now) = state();
        let first = take(&mut state, 1, 10, now);
        assert_eq!(first.len(), 30);
        let second = take(&mut state, 2, 10, now);
        assert_eq!(second.len(), 20);
        assert_eq!(take(&mut state, 1, 10, now).len(), 0, "it holds more than its share by now");
        release(&mut state, &first);
        let again = take(&mut state, 1, 10, now);
        assert_eq!(again.len(), 20);
        release(&mut state, &second);
        release(&mut state, &again);
        assert!(state.tenants.is_empty() && state.waiting.is_empty());
        assert_eq!(state.units(), 0);
    }

    #[test]
    fn the_reserve_is_divided_among_the_tenants_that_have_something_waiting() {
        let (mut state, now) = state();
        assert!(state.admit(tenant(1), 600, now).is_ok());
        let quiet = take(&mut state, 2, 25, now);
        assert_eq!(quiet.len(), 4, "a third of 300");
        assert!(quiet.iter().all(|share| share.is_reserved));
        assert_eq!(take(&mut state, 3, 25, now).len(), 3, "a quarter of 300");
        for of in 4..=58 {
            state.admit(tenant(of), 1, now).expect("one unit");
        }
        let units = 300 / 60;
        assert_eq!(
            state.admit(tenant(59), units + 1, now).map_err(|full| full.bound),
            Err(OverloadReason::Backlog)
        );
        assert!(state.admit(tenant(59), units, now).is_ok(), "a sixtieth of 300");
    }

    #[test]
    fn the_first_event_of_a_tenant_is_admitted_however_many_others_burst() {
        let (mut state, now) = state();
        for of in 1..GUARANTEED_TENANTS as u128 {
            take(&mut state, of, 1, now);
            take(&mut state, of, 10, now);
        }
        assert!(state.total >= 600 && state.reserved >= 300, "{}, {}", state.total, state.reserved);
        assert!(state.admit(tenant(5_000), EVENT_UNITS_MAX + 1, now).is_err(), "more than one event");
        let quiet = state.admit(tenant(5_000), EVENT_UNITS_MAX, now);
        assert!(quiet.is_ok(), "{quiet:?}");
        assert!(state.admit(tenant(5_000), 1, now).is_err(), "it has one waiting");
        assert!(state.admit(tenant(5_001), 1, now).is_err(), "there are a thousand");
        let most = 600 + BATCH_UNITS_MAX + 300 + GUARANTEED_TENANTS as u64;
        assert!(state.units() <= most, "{}", state.units());
    }

    #[test]
    fn a_full_batch_is_admitted_beside_small_requests_however_small_the_limit_is() {
        let (mut state, now) = state();
        state.rate = Rate::new(20.0, TARGET, now);
        assert!(state.admit(tenant(1), 1, now).is_ok());
        assert!(state.admit(tenant(2), BATCH_UNITS_MAX, now).is_ok());
        assert!(state.admit(tenant(3), BATCH_UNITS_MAX, now).is_err(), "the limit is exceeded");
        assert!(state.admit(tenant(3), 1, now).is_ok());
    }

    #[test]
    fn a_tenant_holds_no_more_than_half_of_the_first_limit_whatever_the_rate_is() {
        let (mut state, now) = state();
        state.rate = Rate::new(50_000.0, TARGET, now);
        assert_eq!(take(&mut state, 1, 10, now).len(), 30);
    }

    #[test]
    fn retry_after_covers_the_waiting_work_of_the_tenant() {
        let (mut state, now) = state();
        state.rate = Rate::new(100.0, TARGET, now);
        assert!(state.admit(tenant(1), 1_000, now).is_ok());
        let full = state.admit(tenant(1), 1, now);
        assert_eq!(full, Err(BacklogFull { bound: OverloadReason::BacklogShare, retry_after: 10 }));
    }

    #[test]
    fn retry_after_covers_the_whole_backlog() {
        let (mut state, now) = state();
        state.rate = Rate::new(100.0, TARGET, now);
        assert!(state.admit(tenant(1), 1_000, now).is_ok());
        // 60 units may wait, so 1,040 have to be applied before 100 more fit.
        let full = state.admit(tenant(2), 100, now);
        assert_eq!(full, Err(BacklogFull { bound: OverloadReason::Backlog, retry_after: 11 }));
        state.rate = Rate::new(10.0, TARGET, now);
        let full = state.admit(tenant(2), 100, now);
        assert_eq!(full, Err(BacklogFull { bound: OverloadReason::Backlog, retry_after: RETRY_AFTER_MAX }));
    }

    #[test]
    fn an_overtaken_request_does_not_change_the_rate() {
        let (mut state, now) = state();
        state.admit(tenant(1), 100, now).expect("one that gets no reply");
        let overtaking = state.admit(tenant(2), 1, now).expect("a share");
        let later = now + TARGET / 10;
        state.replied(&overtaking, later);
        state.release(&overtaking);
        for second in 1..60 {
            let now = now + Duration::from_secs(second);
            let share = state.admit(tenant(2), 1, now).expect("a share");
            state.replied(&share, now + TARGET / 10);
            state.release(&share);
        }
        assert!((state.rate.limit() - 600.0).abs() < 1.0, "{:?}", state.rate);
    }

    #[test]
    fn an_outage_in_which_nothing_is_replied_leaves_a_limit_that_admits_again() {
        let (mut state, begun) = state();
        let held = take(&mut state, 1, 10, begun);
        let mut now = begun;
        for _ in 0..600 {
            now += Duration::from_millis(100);
            assert!(state.admit(tenant(1), 1, now).is_err());
        }
        assert_eq!(state.disconnected_hold(&held[0], now), UNREPLIED_HOLD_MAX);
        release(&mut state, &held);
        let alone = state.admit(tenant(1), 1_000, now).expect("an empty backlog admits any request");
        release(&mut state, &[alone]);
        assert_eq!(take(&mut state, 1, 1, now).len(), 30, "half of the lowest limit");
    }

    #[test]
    fn a_share_without_a_reply_is_held_for_as_long_as_the_worker_needs_at_most_a_minute() {
        let (mut state, now) = state();
        let [applied, lost] = [1, 2].map(|of| state.admit(tenant(of), 100, now).expect("a share"));
        let later = now + Duration::from_secs(5);
        assert_eq!(state.unreplied_hold_time(&lost, later), UNREPLIED_HOLD_MAX, "nothing was applied");
        state.replied(&applied, later);
        state.release(&applied);
        assert_eq!(state.unreplied_hold_time(&lost, later), Duration::from_secs(5));
        assert_eq!(state.unreplied_hold_time(&lost, later + UNREPLIED_HOLD_MAX), UNREPLIED_HOLD_MAX);
    }
}
