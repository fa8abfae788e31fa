//! Medians, percentiles and how they are printed.

use std::time::Duration;

/// What one stretch of load gave.
#[derive(Clone, Debug)]
pub(crate) struct Stretch {
    /// Events in a second.
    pub(crate) rate: f64,
    /// Half of the requests were answered within this.
    pub(crate) p50: Duration,
    /// All but one in a hundred were answered within this.
    pub(crate) p99: Duration,
}

impl Stretch {
    /// From the number of events, the time it all took, and each request's time.
    pub(crate) fn new(events: usize, took: Duration, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| {
            times.get((times.len() * percent / 100).min(times.len().saturating_sub(1))).copied()
        };
        Self {
            rate: events as f64 / took.as_secs_f64(),
            p50: at(50).unwrap_or_default(),
            p99: at(99).unwrap_or_default(),
        }
    }
}

/// The middle one.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Milliseconds with one decimal.
pub(crate) fn millis(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1_000.0)
}
