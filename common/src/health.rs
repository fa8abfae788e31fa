//! The operator's port: `/metrics`, `/livez`, `/readyz`.

use crate::clock;
use crate::http::{self, ServerSettings};
use crate::metrics::READY;
use crate::periodic::ticks;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use parking_lot::Mutex;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use warp::http::StatusCode;
use warp::{Filter, Reply};

/// The readiness checks of a program, by name: its own, and `clock`. The program is ready when all of them are fulfilled.
#[derive(Clone, Debug, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, bool>>>,
}

/// How long a round trip may be under way, or a loop may take to come around: it hangs then, because each has shorter limits.
const HANGS_AFTER: Duration = Duration::from_mins(1);

/// Connections that `/livez` and `/readyz` always find free: a probe needs one for a moment.
const SPARE_CONNECTIONS: usize = 8;

static WORK: Mutex<Work> = Mutex::new(Work::new());

tokio::task_local! {
    /// The loop that the task runs in.
    static LOOP: WorkUnderWay;
}

/// When the work began that is under way, by a number that grows. As many as there are connections and loops.
#[derive(Debug)]
struct Work {
    begun: BTreeMap<u64, Instant>,
    next: u64,
}

impl Work {
    const fn new() -> Self {
        Self { begun: BTreeMap::new(), next: 0 }
    }

    fn begin(&mut self, now: Instant) -> u64 {
        self.next += 1;
        self.begun.insert(self.next, now);
        self.next
    }

    /// Begins anew what has moved.
    fn restart(&mut self, number: u64, now: Instant) {
        self.begun.insert(number, now);
    }

    /// Whether some work does not come to an end, whatever else does.
    fn hangs(&self, now: Instant) -> bool {
        self.begun.values().any(|begun| now.saturating_duration_since(*begun) > HANGS_AFTER)
    }
}

/// Work that is under way, until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct WorkUnderWay(u64);

/// Begins a round trip whose end, successful or not, `/livez` waits for. It must have a limit of its own far below a minute, so that
/// an outage is no fault of the program.
pub fn begin_work() -> WorkUnderWay {
    WorkUnderWay(WORK.lock().begin(Instant::now()))
}

/// Runs a loop, or a part of one that does not wait for work, from which `/livez` expects a [`beat`] each minute.
pub async fn watch<T>(work: impl Future<Output = T>) -> T {
    LOOP.scope(begin_work(), work).await
}

/// Says that the watched loop of this task, if it runs in one, has moved: it came around, or it waits for a server that is absent.
pub fn beat() {
    let _ = LOOP.try_with(|under_way| WORK.lock().restart(under_way.0, Instant::now()));
}

impl Drop for WorkUnderWay {
    fn drop(&mut self) {
        WORK.lock().begun.remove(&self.0);
    }
}

#[derive(Serialize)]
struct Readiness {
    ready: bool,
    checks: BTreeMap<&'static str, bool>,
}

impl Health {
    /// The checks `names`, none of them fulfilled yet.
    pub fn new(names: &[&'static str]) -> Self {
        let health = Self::default();
        names.iter().for_each(|name| health.set(name, false));
        health
    }

    /// Sets whether the check `name` is fulfilled.
    pub fn set(&self, name: &'static str, is_ok: bool) {
        metrics::gauge!(READY, "check" => name).set(f64::from(u8::from(is_ok)));
        let was = self.checks.lock().insert(name, is_ok);
        if was.is_some_and(|was| was != is_ok) {
            tracing::info!(check = name, ready = is_ok, "readiness changed");
        }
    }

    /// Whether all checks are fulfilled.
    pub fn is_ready(&self) -> bool {
        self.set("clock", clock::is_near_database());
        self.checks.lock().values().all(|is_ok| *is_ok)
    }

    fn readiness(&self) -> Readiness {
        Readiness { ready: self.is_ready(), checks: self.checks.lock().clone() }
    }
}

/// Serves the operator's port in the background for as long as the program runs. The error is one of [`cannot_listen`].
pub async fn serve(addr: SocketAddr, health: Health, metrics: PrometheusHandle) -> io::Result<()> {
    let bind_error = |error| cannot_listen("CONNECT_METRICS_ADDR", addr, &error);
    let listener = TcpListener::bind(addr).await.map_err(bind_error)?;
    let bound = listener.local_addr().map_err(bind_error)?;
    tracing::info!(addr = %bound, "listening for metrics and health requests");
    let upkeep = metrics.clone();
    tokio::spawn(async move {
        let mut ticks = ticks(Duration::from_secs(5));
        loop {
            ticks.tick().await;
            upkeep.run_upkeep();
        }
    });
    let process = metrics_process::Collector::default();
    process.describe();
    let metrics = warp::path!("metrics").map(move || {
        process.collect();
        metrics.render()
    });
    let livez = warp::path!("livez").map(|| match WORK.lock().hangs(Instant::now()) {
        false => warp::reply::with_status("alive\n", StatusCode::OK),
        true => warp::reply::with_status(
            "a round trip to Postgres or RabbitMQ has been under way for a minute, or a task has not moved for as long\n",
            StatusCode::SERVICE_UNAVAILABLE,
        ),
    });
    let readyz = warp::path!("readyz").map(move || {
        let readiness = health.readiness();
        let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        warp::reply::with_status(warp::reply::json(&readiness), status).into_response()
    });
    // D34: HEAD gets the same response as GET, without the body.
    let routes = warp::get().or(warp::head()).unify().and(metrics.or(livez).or(readyz));
    let service = move |_| http::with_host(TowerToHyperService::new(warp::service(routes.clone())));
    let mut settings = ServerSettings::small(Duration::ZERO);
    settings.limits.spare = SPARE_CONNECTIONS;
    tokio::spawn(async move { http::serve(listener, settings, service, &CancellationToken::new()).await });
    Ok(())
}

/// The error of an address that cannot be listened on, with the setting that names it.
pub fn cannot_listen(setting: &str, addr: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("setting {setting}: cannot listen on {addr}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_hangs_is_seen_although_other_work_ends() {
        let (mut work, begun) = (Work::new(), Instant::now());
        let hung = work.begin(begun);
        for second in 1..=60 {
            let other = work.begin(begun + Duration::from_secs(second));
            assert!(!work.hangs(begun + Duration::from_secs(second)), "after {second} s");
            work.begun.remove(&other);
        }
        let later = begun + Duration::from_secs(61);
        let other = work.begin(later);
        assert!(work.hangs(later));
        work.begun.remove(&hung);
        assert!(!work.hangs(later), "the oldest is new now");
        work.begun.remove(&other);
        assert!(!work.hangs(later + Duration::from_hours(1)), "an idle program does not hang");
    }

    #[test]
    fn a_loop_that_does_not_come_around_is_seen_although_others_do() {
        let (mut work, begun) = (Work::new(), Instant::now());
        let (stuck, coming) = (work.begin(begun), work.begin(begun));
        for second in 1..=61 {
            work.restart(coming, begun + Duration::from_secs(second));
        }
        assert!(work.hangs(begun + Duration::from_secs(61)));
        work.restart(stuck, begun + Duration::from_secs(61));
        assert!(!work.hangs(begun + Duration::from_secs(61)));
    }
}
