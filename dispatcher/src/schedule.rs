//! When a delivery is retried (specification: Delivery rules; D26). Pure: the random number is an argument.

use std::time::Duration;

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

impl Schedule {
    /// The wait after the `made`th attempt failed, or `None` when there is no further attempt. It is at least `asked`, the
    /// receiver's `Retry-After`, and at most the cap (D44). `chance`, from 0 to 1, is the part of the jitter that is added, so that
    /// deliveries that failed together are not retried together.
    pub(crate) fn wait_after(&self, made: u16, asked: Option<Duration>, chance: f64) -> Option<Duration> {
        if made >= self.attempts {
            return None;
        }
        let doublings = u32::from(made.max(1) - 1);
        let wait = self.base.saturating_mul(1_u32.checked_shl(doublings).unwrap_or(u32::MAX)).min(self.cap);
        let wait = wait.mul_f64(1.0 + JITTER * chance.clamp(0.0, 1.0));
        Some(wait.max(asked.unwrap_or_default()).min(self.cap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEDULE: Schedule = Schedule { attempts: 6, base: Duration::from_secs(30), cap: Duration::from_secs(3_600) };

    fn seconds(made: u16, asked: Option<u64>) -> Option<u64> {
        SCHEDULE.wait_after(made, asked.map(Duration::from_secs), 0.0).map(|wait| wait.as_secs())
    }

    #[test]
    fn waits_double_from_the_base_until_the_attempts_are_used_up() {
        let waits: Vec<_> = (1..=6).map(|made| seconds(made, None)).collect();
        assert_eq!(waits, [Some(30), Some(60), Some(120), Some(240), Some(480), None]);
    }

    #[test]
    fn waits_stop_growing_at_the_cap() {
        let long = Schedule { attempts: 100, ..SCHEDULE };
        let waits: Vec<_> = [6, 7, 8, 40, 99].map(|made| long.wait_after(made, None, 0.0).unwrap().as_secs()).into();
        assert_eq!(waits, [960, 1_920, 3_600, 3_600, 3_600]);
        let flat = Schedule { attempts: 3, base: Duration::from_secs(60), cap: Duration::from_secs(10) };
        assert_eq!(flat.wait_after(2, None, 1.0), Some(Duration::from_secs(10)));
    }

    #[test]
    fn retry_after_is_kept_to_the_second_and_never_shortens_a_wait() {
        assert_eq!(seconds(1, Some(31)), Some(31));
        assert_eq!(seconds(1, Some(1_000)), Some(1_000));
        assert_eq!(seconds(3, Some(1)), Some(120));
        assert_eq!(seconds(1, Some(100_000)), Some(3_600), "the cap");
        assert_eq!(seconds(6, Some(5)), None);
        let asked = SCHEDULE.wait_after(1, Some(Duration::from_secs(100)), 1.0);
        assert_eq!(asked, Some(Duration::from_secs(100)), "without jitter");
    }

    #[test]
    fn jitter_lengthens_a_wait_by_a_tenth_at_most() {
        let most = SCHEDULE.wait_after(1, None, 1.0).unwrap();
        assert_eq!(most, Duration::from_secs(33));
        assert_eq!(SCHEDULE.wait_after(1, None, 7.0).unwrap(), most);
    }
}
