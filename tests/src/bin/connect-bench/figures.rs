//! Rates, percentiles, medians, and how they are printed.

use crate::bounded::bounded;
use futures_util::future::join_all;
use std::time::{Duration, Instant};

/// What one stretch of load gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stretch {
    /// Events, or whatever was counted.
    pub(crate) count: usize,
    /// The same in a second.
    pub(crate) rate: f64,
    /// Half of the requests took no longer, in seconds.
    pub(crate) p50: f64,
    /// All but one in a hundred took no longer, in seconds.
    pub(crate) p99: f64,
}

impl Stretch {
    /// From the number of events, the time it all took, and each request's time in seconds.
    pub(crate) fn new(count: usize, took: Duration, mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let (p50, p99) = (percentile(&times, 0.5), percentile(&times, 0.99));
        Self { count, rate: count as f64 / took.as_secs_f64(), p50, p99 }
    }
}

/// Has each of `callers` do the same again and again for that long. `once` gives the time that counts, in seconds;
/// each time stands for `events` events. No step may take longer than a minute.
pub(crate) async fn measure<C>(
    callers: &mut [C],
    length: Duration,
    events: usize,
    once: impl AsyncFn(&mut C) -> f64,
) -> Stretch {
    let started = Instant::now();
    let repeat = async |caller: &mut C| {
        let mut times = Vec::new();
        while started.elapsed() < length {
            times.push(bounded("one step of a load", once(caller)).await);
        }
        times
    };
    let times = join_all(callers.iter_mut().map(repeat)).await.concat();
    Stretch::new(times.len() * events, started.elapsed(), times)
}

/// The time that something takes, in seconds.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, f64) {
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed().as_secs_f64())
}

/// The value below which this part of the sorted values lies.
pub(crate) fn percentile(sorted: &[f64], part: f64) -> f64 {
    let position = (sorted.len() as f64 * part) as usize;
    sorted.get(position.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

/// The middle one.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Milliseconds.
pub(crate) fn millis(seconds: f64) -> String {
    let millis = seconds * 1_000.0;
    if millis < 10.0 { format!("{millis:.2} ms") } else { format!("{millis:.1} ms") }
}

/// A ratio as percent.
pub(crate) fn percent(ratio: f64) -> String {
    format!("{:.0} %", ratio * 100.0)
}
