//! Decides which requests are admitted to a backlog, and counts them. Pure.
//!
//! A tenant may hold the limit, divided by the number of tenants that have work waiting or were refused in the last five seconds: alone
//! it may use everything, and as soon as another one asks, each has its part. Half of the limit stays with those that have work waiting,
//! however many others were refused. What the first one holds beyond its part by then waits in addition to the limit until it is applied. A tenant with nothing waiting is always admitted with one
//! event, and with any request while less than the limit waits: a full batch may be more than its part.

use super::rate::{Point, Rate};
use super::units::EVENT_UNITS_MAX;
use common::model::TenantId;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;
use tokio::time::Instant;

/// While at most so many tenants have waiting work, a tenant that has none is always admitted with one event.
const GUARANTEED_TENANTS: usize = 1_000;
/// The longest time for which the share of a request without a reply is kept.
const UNREPLIED_HOLD_MAX: Duration = Duration::from_secs(60);
/// The longest `Retry-After`, in seconds.
const RETRY_AFTER_MAX: u32 = 30;
/// The most tenants in one report, and the most that have a part although they have nothing waiting.
const PRESSURES_MAX: usize = 100;
/// How long a tenant that was refused has its part although it has nothing waiting.
const ASKS_AGAIN: Duration = Duration::from_secs(5);

/// An admitted request, as the backlog counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CountedRequest {
    pub(super) tenant: TenantId,
    /// In the order in which requests were admitted.
    pub(super) number: u64,
    pub(super) units: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) rate: Rate,
    /// The limit at first. A tenant's part is of no more than this: the estimate of the rate may be too high when its
    /// requests become more expensive. A worker that is faster than assumed applies it before the target.
    first_limit: f64,
    /// All units that wait.
    total: u64,
    /// Units that wait, by tenant; without entries for tenants that have none.
    tenants: HashMap<TenantId, u64>,
    /// The requests that wait for a reply, by number.
    waiting: BTreeMap<u64, Point>,
    next: u64,
    /// The highest number that was replied to. Requests that were admitted before that one have left the queue, which is
    /// processed in order.
    replied: u64,
    /// Requests refused since they were reported, by tenant.
    refused: HashMap<TenantId, u64>,
    /// Until when the tenants that were refused have their part: the others must leave them room.
    asking: HashMap<TenantId, Instant>,
}

impl State {
    pub(super) fn new(rate: Rate) -> Self {
        Self {
            rate,
            first_limit: rate.limit(),
            total: 0,
            tenants: HashMap::new(),
            waiting: BTreeMap::new(),
            next: 0,
            replied: 0,
            refused: HashMap::new(),
            asking: HashMap::new(),
        }
    }

    /// Returns the seconds after which a request may be admitted if there is no room for it now.
    pub(super) fn check(&mut self, tenant: TenantId, units: u64, now: Instant) -> Result<(), u32> {
        if let Some(oldest) = self.oldest() {
            self.rate.lower(now, oldest);
        }
        self.asking.retain(|_, until| now < *until);
        let own = self.waiting_of(tenant);
        let active = self.tenants.len() + usize::from(own == 0);
        let asks = |asking: &&TenantId| **asking != tenant && !self.tenants.contains_key(*asking);
        let asking = self.asking.keys().filter(asks).count();
        if self.has_room(own, units, active, asking) {
            return Ok(());
        }
        if self.asking.len() < PRESSURES_MAX || self.asking.contains_key(&tenant) {
            self.asking.insert(tenant, now + ASKS_AGAIN);
        }
        if self.refused.len() < PRESSURES_MAX || self.refused.contains_key(&tenant) {
            *self.refused.entry(tenant).or_insert(0) += 1;
        }
        Err(self.retry_after(own, units, active))
    }

    /// Admits a request, or fails as [`check`](Self::check).
    pub(super) fn admit(&mut self, tenant: TenantId, units: u64, now: Instant) -> Result<CountedRequest, u32> {
        let begun = self.rate.begin(now);
        self.check(tenant, units, now)?;
        self.total += units;
        *self.tenants.entry(tenant).or_insert(0) += units;
        self.next += 1;
        self.waiting.insert(self.next, begun);
        Ok(CountedRequest { tenant, number: self.next, units })
    }

    /// Whether a tenant with `own` units waiting is admitted with `units` more. `active` tenants have something
    /// waiting, this one included, and `asking` others were refused, which get no more than half of the limit.
    fn has_room(&self, own: u64, units: u64, active: usize, asking: usize) -> bool {
        let limit = self.rate.limit();
        let is_guaranteed = units <= EVENT_UNITS_MAX && active <= GUARANTEED_TENANTS;
        (own + units) as f64 * (active + asking.min(active)) as f64 <= limit.min(self.first_limit)
            || own == 0 && (is_guaranteed || (self.total as f64) < limit)
    }

    /// Seconds after which a request of `units` that is refused now may be admitted: when what the tenant has waiting
    /// beyond its part is applied beside the work of `active` tenants, and the backlog is below the limit.
    fn retry_after(&self, own: u64, units: u64, active: usize) -> u32 {
        let to_apply = ((own + units) as f64 * active as f64).max(self.total as f64) - self.rate.limit();
        ((to_apply / self.rate.per_second()).ceil() as u32).clamp(1, RETRY_AFTER_MAX)
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
        self.total -= admitted.units;
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

    /// How long to hold the share of a request whose connection to the broker broke: until the whole backlog is
    /// applied, and at least as long as the request has waited.
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
        self.total
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
    fn a_tenant_alone_has_everything_and_each_its_part_as_soon_as_another_asks() {
        let (mut state, now) = state();
        let first = take(&mut state, 1, 10, now);
        assert_eq!(first.len(), 60);
        let second = take(&mut state, 2, 10, now);
        assert_eq!(second.len(), 30);
        assert_eq!(take(&mut state, 1, 10, now).len(), 0, "it holds more than its part by now");
        release(&mut state, &first);
        let again = take(&mut state, 1, 10, now);
        assert_eq!(again.len(), 30);
        let third = take(&mut state, 3, 10, now);
        assert_eq!(third.len(), 20);
        [second, again, third].iter().for_each(|shares| release(&mut state, shares));
        assert!(state.tenants.is_empty() && state.waiting.is_empty());
        assert_eq!(state.units(), 0);
    }

    #[test]
    fn the_first_event_of_a_tenant_is_admitted_however_many_others_burst() {
        let (mut state, now) = state();
        for of in 1..GUARANTEED_TENANTS as u128 {
            take(&mut state, of, 1, now);
        }
        assert!(state.admit(tenant(5_000), EVENT_UNITS_MAX + 1, now).is_err(), "more than one event");
        let quiet = state.admit(tenant(5_000), EVENT_UNITS_MAX, now);
        assert!(quiet.is_ok(), "{quiet:?}");
        assert!(state.admit(tenant(5_000), 1, now).is_err(), "it has one waiting");
        assert!(state.admit(tenant(5_001), 1, now).is_err(), "there are a thousand");
        assert!(state.units() <= 8 * 600, "{} wait, although all of them burst at once", state.units());
    }

    #[test]
    fn a_full_batch_is_admitted_beside_small_requests_however_small_the_limit_is() {
        let (mut state, now) = state();
        state.rate = Rate::new(20.0, TARGET, now);
        assert!(state.admit(tenant(1), 1, now).is_ok());
        assert!(state.admit(tenant(2), 100 * EVENT_UNITS_MAX, now).is_ok());
        assert!(state.admit(tenant(3), 100 * EVENT_UNITS_MAX, now).is_err(), "the limit is exceeded");
        assert!(state.admit(tenant(3), 1, now).is_ok());
    }

    #[test]
    fn a_refused_batch_gets_room_although_another_tenant_asks_for_all_of_it() {
        let (mut state, now) = state();
        let mut held = take(&mut state, 1, 10, now);
        assert!(state.admit(tenant(2), 400, now).is_err(), "the limit is used up");
        release(&mut state, &[held.remove(0)]);
        assert!(state.admit(tenant(1), 1, now).is_err(), "it holds more than its part");
        let event = state.admit(tenant(2), 1, now).expect("room");
        assert!(state.admit(tenant(2), 400, now).is_err(), "it has one event waiting");
        release(&mut state, &[event]);
        assert!(state.admit(tenant(1), 1, now).is_err(), "the other one still asks");
        held.push(state.admit(tenant(2), 400, now).expect("room"));
        release(&mut state, &held);
        let later = now + ASKS_AGAIN;
        assert_eq!(take(&mut state, 1, 10, later).len(), 60, "the other one asks no more");
    }

    #[test]
    fn half_of_the_limit_stays_with_a_tenant_that_sends_however_many_others_were_refused() {
        let (mut state, now) = state();
        let held = take(&mut state, 1, 10, now);
        for of in 2..52 {
            assert!(state.admit(tenant(of), 400, now).is_err(), "the limit is used up");
        }
        release(&mut state, &held);
        assert_eq!(take(&mut state, 1, 10, now).len(), 30);
        assert!(state.admit(tenant(2), 400, now).is_ok(), "there is room for those that were refused");
    }

    #[test]
    fn a_tenant_holds_no_more_than_the_first_limit_whatever_the_rate_is() {
        let (mut state, now) = state();
        state.rate = Rate::new(50_000.0, TARGET, now);
        assert_eq!(take(&mut state, 1, 10, now).len(), 60);
    }

    #[test]
    fn retry_after_covers_the_waiting_work_of_the_tenant_and_the_whole_backlog() {
        let (mut state, now) = state();
        state.rate = Rate::new(100.0, TARGET, now);
        assert!(state.admit(tenant(1), 1_000, now).is_ok());
        // 60 units may wait, so 941 have to be applied.
        assert_eq!(state.admit(tenant(1), 1, now), Err(10));
        assert_eq!(state.admit(tenant(2), 100, now), Err(10));
        assert_eq!(state.admit(tenant(2), 700, now), Err(14), "beside those of the other tenant");
        state.rate = Rate::new(10.0, TARGET, now);
        assert_eq!(state.admit(tenant(2), 100, now), Err(RETRY_AFTER_MAX));
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
        assert_eq!(take(&mut state, 1, 1, now).len(), 60, "the lowest limit");
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
