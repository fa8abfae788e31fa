//! Rates, percentiles, medians, and how they are printed.

use crate::time_limit::with_step_timeout;
use futures_util::future::join_all;
use std::time::{Duration, Instant};

/// The result of one measured load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadStats {
    /// Number of events, or of whatever was counted.
    pub(crate) count: usize,
    /// Completed operations per second.
    pub(crate) rate: f64,
    /// Median time of a request, in seconds.
    pub(crate) p50: f64,
    /// 99th percentile of the time of a request, in seconds.
    pub(crate) p99: f64,
}

impl LoadStats {
    /// From the number of events, the time it all took, and each request's time in seconds.
    pub(crate) fn new(count: usize, took: Duration, mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let (p50, p99) = (percentile(&times, 0.5), percentile(&times, 0.99));
        Self { count, rate: count as f64 / took.as_secs_f64(), p50, p99 }
    }
}

/// Calls `once` repeatedly for each of `callers`, for `length`. `once` returns the measured time in seconds; each call
/// stands for `events` events. No call may take longer than a minute.
pub(crate) async fn measure<C>(
    callers: &mut [C],
    length: Duration,
    events: usize,
    once: impl AsyncFn(&mut C) -> f64,
) -> LoadStats {
    let started = Instant::now();
    let repeat = async |caller: &mut C| {
        let mut times = Vec::new();
        while started.elapsed() < length {
            times.push(with_step_timeout("one step of a load", once(caller)).await);
        }
        times
    };
    let times = join_all(callers.iter_mut().map(repeat)).await.concat();
    LoadStats::new(times.len() * events, started.elapsed(), times)
}

/// Awaits `work` and measures its time in seconds.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, f64) {
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed().as_secs_f64())
}

/// The percentile of sorted values; `part` is between 0 and 1.
pub(crate) fn percentile(sorted: &[f64], part: f64) -> f64 {
    let position = (sorted.len() as f64 * part) as usize;
    sorted.get(position.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// The median; NaN without values.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Formats seconds as milliseconds.
pub(crate) fn millis(seconds: f64) -> String {
    let millis = seconds * 1_000.0;
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.1} ms") }
}

/// Formats a ratio as percent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}
