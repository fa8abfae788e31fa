//! Work that a background task repeats, such as writing what was noted in memory.

use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Ticks at once and then each `period`. A late tick delays the next ones.
pub fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}
