//! The operator's port: `/metrics`, `/livez`, `/readyz`.

use crate::clock;
use crate::http::{self, ServerSettings};
use crate::metrics::READY;
use crate::periodic::ticks;
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
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

/// How long work may be under way without any of it coming to an end, successful or not: it hangs then.
const HANGS_AFTER: Duration = Duration::from_mins(1);

/// Connections that `/livez` and `/readyz` always find free: a probe needs one for a moment.
const SPARE_CONNECTIONS: usize = 8;

/// Work that is under way, and when some of it was begun or ended last.
static WORK: Mutex<(usize, Option<Instant>)> = Mutex::new((0, None));

/// Work that is under way, until it is dropped.
#[derive(Debug)]
pub(crate) struct WorkUnderWay(());

/// Begins work whose end `/livez` waits for. Each attempt counts, so that an outage that is waited out is no fault of the program.
pub(crate) fn begin_work() -> WorkUnderWay {
    let mut work = WORK.lock().unwrap_or_else(PoisonError::into_inner);
    // Work that begins beside other work does not show that the other moves.
    if work.0 == 0 {
        work.1 = Some(Instant::now());
    }
    work.0 += 1;
    WorkUnderWay(())
}

impl Drop for WorkUnderWay {
    fn drop(&mut self) {
        let mut work = WORK.lock().unwrap_or_else(PoisonError::into_inner);
        *work = (work.0 - 1, Some(Instant::now()));
    }
}

fn hangs(now: Instant) -> bool {
    let (under_way, moved) = *WORK.lock().unwrap_or_else(PoisonError::into_inner);
    under_way > 0 && moved.is_some_and(|moved| now.duration_since(moved) > HANGS_AFTER)
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
        let was = self.checks().insert(name, is_ok);
        if was.is_some_and(|was| was != is_ok) {
            tracing::info!(check = name, ready = is_ok, "readiness changed");
        }
    }

    /// Whether all checks are fulfilled.
    pub fn is_ready(&self) -> bool {
        self.set("clock", clock::is_near_database());
        self.checks().values().all(|is_ok| *is_ok)
    }

    fn checks(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, bool>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readiness(&self) -> Readiness {
        Readiness { ready: self.is_ready(), checks: self.checks().clone() }
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
    let livez = warp::path!("livez").map(|| match hangs(Instant::now()) {
        false => warp::reply::with_status("alive\n", StatusCode::OK),
        true => warp::reply::with_status("no work has ended for a minute\n", StatusCode::SERVICE_UNAVAILABLE),
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
