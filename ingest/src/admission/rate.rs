//! Estimates the rate at which the worker applies units, from its replies. Pure.
//!
//! The rate is measured over the last one or two targets, which is long beside what the worker applies at once. The queue is
//! processed in order, so the worker was busy for as long as a request waited. If it waited for longer than the target, the
//! units applied meanwhile give the worker's rate, and the estimate falls to it. Otherwise a measurement may only raise the
//! estimate: it can be low because little was sent.

use std::time::Duration;
use tokio::time::Instant;

/// Within a period of `STEP_EVERY` the estimate rises at most to `STEP_UP` times, and falls at most to a `STEP_DOWN`th of, its
/// value at the beginning of the period.
const STEP_UP: f64 = 4.0;
const STEP_DOWN: f64 = 2.0;
const STEP_EVERY: Duration = Duration::from_millis(100);
/// The limit never falls below this many backlog units (or the initial limit, if that is lower). Otherwise a backlog that stood
/// still could not recover, and a unit of work that takes longer than the target would be nearly empty.
const LIMIT_MIN: f64 = 60.0;
/// Highest rate that is assumed, as a multiple of the first one: duplicates and large bodies are applied faster than
/// other work that may follow them.
const RATE_MAX_FACTOR: f64 = 4.0;

/// An estimate of the worker's rate.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    per_second: f64,
    min: f64,
    max: f64,
    target: Duration,
    /// Units applied so far.
    applied: u64,
    /// Whether units were applied since a request last began to wait.
    has_counted: bool,
    /// Points at which a request began to wait. Measurements begin at the older one; see [`begin`](Self::begin).
    older: Point,
    newer: Point,
    /// The estimate at the beginning of the current period, and when that began.
    before: f64,
    since: Instant,
}

/// A point in time, and what was applied by then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    at: Instant,
    applied: u64,
}

impl Rate {
    /// Assumes `per_second` until there is a measurement. No request is to wait for longer than `target`.
    pub(super) fn new(per_second: f64, target: Duration, now: Instant) -> Self {
        let min = per_second.min(LIMIT_MIN / target.as_secs_f64());
        let max = per_second * RATE_MAX_FACTOR;
        let start = Point { at: now, applied: 0 };
        Self {
            per_second,
            min,
            max,
            target,
            applied: 0,
            has_counted: false,
            older: start,
            newer: start,
            before: per_second,
            since: now,
        }
    }

    /// The estimate, in units a second.
    pub(super) const fn per_second(&self) -> f64 {
        self.per_second
    }

    /// Units that are applied within the target.
    pub(super) fn limit(&self) -> f64 {
        self.per_second * self.target.as_secs_f64()
    }

    /// The time for so many units at the rate since `begun`; `None` when nothing was applied since.
    pub(super) fn time_for(&self, units: u64, begun: Point, now: Instant) -> Option<Duration> {
        let applied = self.applied - begun.applied;
        (applied > 0).then(|| begun.age(now).mul_f64(units as f64 / applied as f64))
    }

    /// Notes that a request begins to wait now, and returns this point. It becomes `newer` if it is the first since a reply, and
    /// `newer` is at least one target old: replies come in groups, and a measurement that began just before a group would be too
    /// high.
    pub(super) fn begin(&mut self, now: Instant) -> Point {
        let present = Point { at: now, applied: self.applied };
        if std::mem::take(&mut self.has_counted) && self.newer.age(now) >= self.target {
            (self.older, self.newer) = (self.newer, present);
        }
        present
    }

    /// Counts units that were applied.
    pub(super) const fn count(&mut self, units: u64) {
        self.applied += units;
        self.has_counted = true;
    }

    /// After the reply to a request that has waited since `begun`: raises the estimate to the measured rate, if the request waited
    /// for at most the target.
    pub(super) fn raise(&mut self, now: Instant, begun: Point) {
        let measured = self.measured(now, self.older);
        if begun.age(now) <= self.target && measured > self.per_second {
            self.step_to(measured, now);
        }
    }

    /// Lowers the estimate to the measured rate if a request has waited since `begun` for longer than the target. Only for a request
    /// that no later one has overtaken: the wait of an overtaken one does not depend on the rate. Measures from `begun` if that is
    /// later than `older`: only since then is it certain that the worker was busy.
    pub(super) fn lower(&mut self, now: Instant, begun: Point) {
        let measured = self.measured(now, if begun.at > self.older.at { begun } else { self.older });
        if begun.age(now) > self.target && measured < self.per_second {
            self.step_to(measured, now);
        }
    }

    fn measured(&self, now: Instant, from: Point) -> f64 {
        (self.applied - from.applied) as f64 / from.age(now).max(self.target).as_secs_f64()
    }

    fn step_to(&mut self, measured: f64, now: Instant) {
        if now.saturating_duration_since(self.since) >= STEP_EVERY {
            (self.before, self.since) = (self.per_second, now);
        }
        let stepped = measured.clamp(self.before / STEP_DOWN, self.before * STEP_UP);
        self.per_second = stepped.clamp(self.min, self.max);
    }
}

impl Point {
    /// How long ago it was.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: Duration = Duration::from_millis(600);

    /// A rate of 1,000 units a second, and when it began.
    fn rate() -> (Rate, Instant) {
        let now = Instant::now();
        (Rate::new(1_000.0, TARGET, now), now)
    }

    #[test]
    fn a_higher_rate_counts_and_a_lower_one_only_after_a_wait_beyond_the_target() {
        let (mut rate, start) = rate();
        let begun = rate.begin(start);
        rate.count(900);
        rate.raise(start + TARGET, begun);
        assert!((rate.per_second() - 1_500.0).abs() < 1.0, "{rate:?}");
        let begun = rate.begin(start + TARGET);
        rate.count(100);
        let reply = start + TARGET * 2;
        rate.raise(reply, begun);
        rate.lower(reply, begun);
        assert!((rate.per_second() - 1_500.0).abs() < 1.0, "little was sent: {rate:?}");
        rate.count(800);
        rate.lower(reply + TARGET / 2, begun);
        assert!((rate.per_second() - 1_000.0).abs() < 1.0, "{rate:?}");
    }

    #[test]
    fn the_estimate_moves_in_steps_between_its_bounds() {
        let (mut rate, start) = rate();
        let begun = rate.begin(start);
        let mut now = start + TARGET;
        let mut expected = 1_000.0_f64;
        for _ in 0..8 {
            now += STEP_EVERY;
            (0..10).for_each(|_| rate.lower(now, begun));
            expected = (expected / STEP_DOWN).max(LIMIT_MIN / TARGET.as_secs_f64());
            assert!((rate.per_second() - expected).abs() < 0.1, "{expected}: {rate:?}");
        }
        assert!((rate.limit() - LIMIT_MIN).abs() < 0.1, "{rate:?}");
        for _ in 0..6 {
            now += STEP_EVERY;
            rate.count(1_000_000);
            (0..10).for_each(|_| {
                let begun = rate.begin(now);
                rate.raise(now, begun);
            });
            expected = (expected * STEP_UP).min(1_000.0 * RATE_MAX_FACTOR);
            assert!((rate.per_second() - expected).abs() < 0.1, "{expected}: {rate:?}");
        }
        assert!((rate.per_second() - 1_000.0 * RATE_MAX_FACTOR).abs() < 0.1, "{rate:?}");
    }

    #[test]
    fn simultaneous_replies_do_not_change_the_rate() {
        let (mut rate, start) = rate();
        rate.count(500);
        let begun = rate.begin(start);
        rate.raise(start + Duration::from_millis(1), begun);
        assert!((rate.per_second() - 1_000.0).abs() < 0.1, "{rate:?}");
    }
}
