//! Measured loads: closed ones, whose callers wait for each response, and steady ones, whose requests start at fixed
//! times. Requests to ingest go over connections that are kept alive.

use crate::traffic::{Event, Traffic, body};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tests::raw::{RawConnection, RawResponse};
use tests::{ApiKey, HttpRequest, World, now};
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Longest time of a single step such as a request, a statement or a message.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

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
    callers: usize, length: Duration, each: usize, once: impl AsyncFn(usize) -> f64,
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

/// The shape of a load: its traffic, the number of events in a batch, the number of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) traffic: Traffic,
    pub(crate) batch: usize,
    pub(crate) connections: usize,
}

impl Shape {
    /// Sends for `length`; each caller sends its next batch when it has the response to the previous one.
    pub(crate) async fn load(self, world: &World, length: Duration) -> LoadStats {
        let sender = Sender::new(world, &world.key);
        measure(self.connections, length, self.batch, async |_| sender.events(&self.traffic.draw(self.batch)).await)
            .await
    }
}

/// A caller with a key and as many connections as it has requests at once, to all ingests in turn.
#[derive(Debug)]
pub(crate) struct Sender {
    addresses: Vec<SocketAddr>,
    pub(crate) key: ApiKey,
    opened: Cell<usize>,
    idle: RefCell<Vec<RawConnection>>,
}

impl Sender {
    pub(crate) fn new(world: &World, key: &ApiKey) -> Self {
        Self::to(world.ingests.iter().map(|ingest| ingest.http().address()).collect(), key)
    }

    pub(crate) fn to(addresses: Vec<SocketAddr>, key: &ApiKey) -> Self {
        Self { addresses, key: key.clone(), opened: Cell::default(), idle: RefCell::default() }
    }

    /// Sends a request and returns the response and its time in seconds.
    pub(crate) async fn exchange(&self, request: &HttpRequest) -> (RawResponse, f64) {
        let idle = self.idle.borrow_mut().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let number = self.opened.replace(self.opened.get() + 1);
                RawConnection::to(self.addresses[number % self.addresses.len()]).await
            }
        };
        let (response, took) = timed(async {
            connection.send_request(request).await;
            connection.response().await.expect("a response before the connection is closed")
        })
        .await;
        self.idle.borrow_mut().push(connection);
        (response, took)
    }

    /// Sends a request whose response must have this status, and returns the response and its time. As partners do, it
    /// resends what is refused with 503 after `Retry-After`; the time counts from the first request.
    pub(crate) async fn send(&self, request: &HttpRequest, status: u16) -> (RawResponse, f64) {
        let mut total = 0.0;
        for _ in 0..10 {
            let (response, took) = self.exchange(request).await;
            total += took;
            if response.status == status {
                return (response, total);
            }
            assert_eq!(response.status, 503, "{response:?}");
            let header = response.head.lines().find_map(|line| line.strip_prefix("retry-after: "));
            let wait = Duration::from_secs(header.and_then(|seconds| seconds.parse().ok()).unwrap_or(1));
            tokio::time::sleep(wait).await;
            total += wait.as_secs_f64();
        }
        panic!("a request was refused ten times with 503");
    }

    /// Sends events, none of which may fail, and returns the time in seconds.
    pub(crate) async fn events(&self, events: &[Event]) -> f64 {
        let request = self.key.events_at(now(), body(events, &self.key.tenant));
        let (response, took) = self.send(&request, 200).await;
        assert!(response.body.contains(r#""failed":0"#), "{response:?}");
        took
    }
}
