//! The lane of one subscription: its waiting jobs and running attempts, and what they say of its receiver. Pure.

use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// A receiver that takes longer than this is slow.
const SLOW: Duration = Duration::from_secs(1);
/// A running attempt that takes longer than this, and than [`STUCK_FACTOR`] times the mean, is stuck.
pub(super) const STUCK: Duration = Duration::from_millis(250);
const STUCK_FACTOR: u32 = 4;
/// Divisor of a lane's share of attempts while its receiver does not respond.
const UNRESPONSIVE_DIVISOR: usize = 8;

/// A lane's class, by the durations of its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LaneClass {
    /// No attempt has ended yet.
    New,
    /// The receiver is slow or does not respond.
    Slow,
    /// The receiver responds quickly.
    Fast,
}

#[derive(Debug)]
pub(super) struct SubscriptionLane<J> {
    /// Waiting jobs, and since when each waits.
    pub(super) waiting: VecDeque<(J, Instant)>,
    /// When each running attempt began, oldest first, and the lane's class then.
    pub(super) running: VecDeque<(Instant, LaneClass)>,
    /// Weighted mean duration of attempts; `None` before the first has ended.
    pub(super) mean: Option<Duration>,
    /// The receiver did not respond to the last attempt.
    pub(super) was_unresponsive: bool,
    pub(super) is_ready: bool,
    pub(super) last_used: Instant,
}

impl<J> SubscriptionLane<J> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            waiting: VecDeque::new(),
            running: VecDeque::new(),
            mean: None,
            was_unresponsive: false,
            is_ready: false,
            last_used: now,
        }
    }

    /// How long the oldest running attempt has taken.
    fn oldest(&self, now: Instant) -> Duration {
        self.running.front().map(|(began, _)| now - *began).unwrap_or_default()
    }

    /// Expected duration of an attempt: the mean, or the age of the oldest running one if that is longer.
    fn duration(&self, now: Instant) -> Duration {
        self.mean.unwrap_or_default().max(self.oldest(now))
    }

    fn is_stuck(&self, now: Instant) -> bool {
        self.oldest(now) > STUCK.max(self.mean.unwrap_or_default() * STUCK_FACTOR)
    }

    pub(super) fn class(&self, now: Instant) -> LaneClass {
        match self.mean {
            _ if self.was_unresponsive || self.is_stuck(now) => LaneClass::Slow,
            None => LaneClass::New,
            Some(mean) if mean > SLOW => LaneClass::Slow,
            Some(_) => LaneClass::Fast,
        }
    }

    /// The number of concurrent attempts that the lane may have.
    pub(super) fn share(&self, each: usize, now: Instant) -> usize {
        if self.mean.is_none() {
            1
        } else if self.was_unresponsive || self.is_stuck(now) {
            (each / UNRESPONSIVE_DIVISOR).max(1)
        } else {
            each
        }
    }

    /// Expected wait of the job at index `at` until it is started.
    pub(super) fn expected_wait(&self, at: usize, each: usize, now: Instant) -> Duration {
        let share = self.share(each, now);
        let rounds = (at + self.running.len()) / share;
        self.duration(now).saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
    }
}
