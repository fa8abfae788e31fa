//! Measured loads: closed ones, whose callers wait for each response, and steady ones, whose requests start at fixed
//! times.

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Longest time of a single step such as a request, a statement or a message.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// The result of one measured load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadStats {
    /// Number of events, or of whatever was counted.
    pub(crate) count: usize,
    /// The count per second.
    pub(crate) rate: f64,
    /// Median time of a request, in seconds; NaN if no times were measured, as is the next.
    pub(crate) p50: f64,
    /// 99th percentile of the time of a request, in seconds.
    pub(crate) p99: f64,
}

impl LoadStats {
    /// From the number of events, the time it all took, and each request's time in seconds.
    pub(crate) fn new(count: usize, took: Duration, mut times: Vec<f64>) -> Self {
        times.sort_unstable_by(f64::total_cmp);
        let last = times.len().saturating_sub(1);
        let percentile =
            |percent: usize| times.get((times.len() * percent / 100).min(last)).copied().unwrap_or(f64::NAN);
        Self { count, rate: count as f64 / took.as_secs_f64(), p50: percentile(50), p99: percentile(99) }
    }
}

/// Calls `once` repeatedly for each of `callers`, for `length`. `once` gets the caller's number and returns the measured
/// time in seconds; each call stands for `each` events.
pub(crate) async fn measure(
    callers: usize,
    length: Duration,
    each: usize,
    once: impl AsyncFn(usize) -> f64,
) -> LoadStats {
    let started = Instant::now();
    let repeat = async |caller| {
        let mut times = Vec::new();
        while started.elapsed() < length {
            let step = timeout(STEP_TIMEOUT, once(caller)).await;
            times.push(step.unwrap_or_else(|_| panic!("one step of a load: not done in {STEP_TIMEOUT:?}")));
        }
        times
    };
    let times = join_all((0..callers).map(repeat)).await.concat();
    LoadStats::new(times.len() * each, started.elapsed(), times)
}

/// Starts `once` `rate` times a second for `length`, whether or not earlier calls have ended: so a slow response delays no
/// later request, and its whole time is measured. Returns the results.
pub(crate) async fn steady<T>(rate: f64, length: Duration, once: impl AsyncFn() -> T) -> Vec<T> {
    let mut ticks = interval(Duration::from_secs_f64(1.0 / rate));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut running, mut done) = (FuturesUnordered::new(), Vec::new());
    let end = tokio::time::Instant::now() + length;
    loop {
        tokio::select! {
            at = ticks.tick() => {
                if at >= end {
                    break;
                }
                running.push(once());
            }
            Some(one) = running.next() => done.push(one),
        }
    }
    let rest = timeout(STEP_TIMEOUT, running.collect::<Vec<_>>()).await;
    done.extend(rest.unwrap_or_else(|_| panic!("the last requests: not done in {STEP_TIMEOUT:?}")));
    done
}

/// Awaits `work` and measures its time in seconds.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (T, f64) {
    let started = Instant::now();
    let done = work.await;
    (done, started.elapsed().as_secs_f64())
}
