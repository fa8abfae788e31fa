//! When a delivery is retried (specification: Delivery rules; D26). Pure: the random number is an argument.

use std::time::Duration;

/// The largest number of retry levels. The last wait is 2^30 times the base: 12 days for a base of a millisecond.
const LEVELS_MAX: u8 = 31;
/// Largest jitter, as a fraction of the wait.
const JITTER: f64 = 0.1;

/// The schedule of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Attempts of a delivery, the first one included.
    pub attempts: u16,
    /// The first wait; each is twice the one before.
    pub base: Duration,
    /// The longest wait, jitter included.
    pub cap: Duration,
}

/// A wait before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Level of the retry queue, from 1.
    pub level: u8,
    /// How long, jitter included; the cap at most.
    pub length: Duration,
}

impl Schedule {
    /// The number of different waits up to the cap, each with its own retry queue.
    pub fn levels(&self) -> u8 {
        (1..=LEVELS_MAX).find(|level| self.length(*level) >= self.cap).unwrap_or(LEVELS_MAX)
    }

    /// The wait after the `made`th attempt failed, or `None` when there is no further attempt. `retry_after` is the
    /// receiver's `Retry-After`: the wait is that of the next level that is long enough, at most the cap. `chance`, from 0
    /// to 1, is the part of the jitter that is added, so that deliveries that failed together are not retried together.
    pub(crate) fn wait_after(&self, made: u16, retry_after: Option<Duration>, chance: f64) -> Option<Wait> {
        if made >= self.attempts {
            return None;
        }
        let levels = self.levels();
        let due = u8::try_from(made.max(1)).unwrap_or(u8::MAX).min(levels);
        let retry_after = retry_after.unwrap_or_default();
        let level = (due..levels).find(|level| self.length(*level) >= retry_after).unwrap_or(levels);
        let length = self.length(level).mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0));
        Some(Wait { level, length: length.min(self.cap) })
    }

    /// The wait of a level, without jitter.
    fn length(&self, level: u8) -> Duration {
        let doublings = u32::from(level.max(1) - 1);
        self.base.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(self.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule =
        Schedule { attempts: 6, base: Duration::from_secs(30), cap: Duration::from_secs(3_600) };

    fn seconds(made: u16, asked: Option<u64>) -> Option<(u8, u64)> {
        let wait = SCHEDULE.wait_after(made, asked.map(Duration::from_secs), 0.0)?;
        Some((wait.level, wait.length.as_secs()))
    }

    #[test]
    fn waits_double_from_the_base_until_the_attempts_are_used_up() {
        let waits: Vec<_> = (1..=6).map(|made| seconds(made, None)).collect();
        let expected = [(1, 30), (2, 60), (3, 120), (4, 240), (5, 480)].map(Some);
        assert_eq!(waits[..5], expected);
        assert_eq!(waits[5], None);
    }

    #[test]
    fn waits_stop_growing_at_the_cap() {
        let long = Schedule { attempts: 12, ..SCHEDULE };
        assert_eq!(long.levels(), 8);
        let waits: Vec<_> =
            (6..12).map(|made| long.wait_after(made, None, 0.0).unwrap().length.as_secs()).collect();
        assert_eq!(waits, [960, 1_920, 3_600, 3_600, 3_600, 3_600]);
    }

    #[test]
    fn retry_after_is_rounded_up_to_a_level_and_never_shortens_a_wait() {
        assert_eq!(seconds(1, Some(31)), Some((2, 60)));
        assert_eq!(seconds(1, Some(100)), Some((3, 120)));
        assert_eq!(seconds(1, Some(30)), Some((1, 30)));
        assert_eq!(seconds(3, Some(1)), Some((3, 120)));
        assert_eq!(seconds(1, Some(1_000)), Some((7, 1_920)));
        assert_eq!(seconds(1, Some(100_000)), Some((8, 3_600)));
        assert_eq!(seconds(6, Some(5)), None);
    }

    #[test]
    fn jitter_lengthens_a_wait_by_a_tenth_at_most() {
        let most = SCHEDULE.wait_after(1, None, 1.0).unwrap().length;
        assert_eq!(most, Duration::from_secs(33));
        assert_eq!(SCHEDULE.wait_after(1, None, 7.0).unwrap().length, most);
        let capped = SCHEDULE.wait_after(1, Some(Duration::MAX), 1.0).unwrap().length;
        assert_eq!(capped, SCHEDULE.cap);
    }

    #[test]
    fn a_cap_below_the_base_is_the_only_level() {
        let flat = Schedule { attempts: 3, base: Duration::from_secs(60), cap: Duration::from_secs(10) };
        assert_eq!(flat.levels(), 1);
        assert_eq!(flat.wait_after(2, None, 0.0), Some(Wait { level: 1, length: Duration::from_secs(10) }));
    }
}
