//! How fast the worker applies what was published, as its replies tell. Pure.

use std::time::Duration;
use tokio::time::Instant;

/// Length of one measurement.
const WINDOW: Duration = Duration::from_millis(100);
/// Least rate that is assumed, as a part of the first one: a backlog that has come to a standstill must be able to move
/// again.
const LEAST: f64 = 0.1;

/// An estimate of the worker's rate.
///
/// Replies that come while little waits tell what is sent, not what the worker can do. So a lower rate counts only when
/// work has waited throughout the measurement; a higher one always does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    per_second: f64,
    least: f64,
    since: Instant,
    applied: u64,
    was_busy: bool,
}

impl Rate {
    /// Assumes `per_second` until there is a measurement.
    pub(super) const fn new(per_second: f64, now: Instant) -> Self {
        Self { per_second, least: per_second * LEAST, since: now, applied: 0, was_busy: false }
    }

    /// Units a second.
    pub(super) const fn per_second(&self) -> f64 {
        self.per_second
    }

    /// Counts units that were applied.
    pub(super) const fn count(&mut self, units: u64) {
        self.applied += units;
    }

    /// Ends the measurement when it has been long enough. `waits_since` is when the oldest unit that waits was published.
    pub(super) fn measure(&mut self, now: Instant, waits_since: Option<Instant>) {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed < WINDOW {
            return;
        }
        let measured = self.applied as f64 / elapsed.as_secs_f64();
        let is_busy = waits_since.is_some_and(|since| since <= now - WINDOW.min(elapsed));
        if measured > self.per_second || (self.was_busy && is_busy) {
            self.per_second = f64::midpoint(self.per_second, measured).max(self.least);
        }
        *self = Self { since: now, applied: 0, was_busy: is_busy, ..*self };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measures `windows` windows in which `applied` units each are applied and the oldest has waited for `waiting`.
    fn after(rate: &mut Rate, start: Instant, windows: u32, applied: u64, waiting: Option<Duration>) -> f64 {
        for window in 1..=windows {
            let now = start + WINDOW * window;
            rate.count(applied);
            rate.measure(now, waiting.map(|waiting| now - waiting));
        }
        rate.per_second()
    }

    #[test]
    fn a_higher_rate_counts_always_and_a_lower_one_only_while_work_waits() {
        let start = Instant::now() + Duration::from_secs(60);
        let mut rate = Rate::new(1_000.0, start);
        assert!(after(&mut rate, start, 20, 500, None) > 4_900.0, "more was applied");
        assert!(after(&mut rate, start + WINDOW * 20, 20, 1, None) > 4_900.0, "there was little to apply");
        let waiting = Some(Duration::from_secs(1));
        let slowed = after(&mut rate, start + WINDOW * 40, 20, 50, waiting);
        assert!((490.0..=520.0).contains(&slowed), "{slowed}");
        let stopped = after(&mut rate, start + WINDOW * 60, 40, 0, waiting);
        assert!((stopped - 1_000.0 * LEAST).abs() < 1.0, "{stopped}");
    }
}
