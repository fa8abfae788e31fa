//! The operator's port: `/metrics`, `/livez`, `/readyz`.

use crate::host_header::require_host;
use crate::metrics::READY;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use metrics_exporter_prometheus::PrometheusHandle;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use warp::http::StatusCode;
use warp::{Filter, Reply};

/// Maximum number of connections to the operator's port at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How long a request's headers may take, and how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Age after which a connection is closed after its next response, so that a client that does not read its responses cannot
/// occupy a connection forever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);
/// Wait before the next attempt after accepting a connection has failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// The readiness checks of a program, by name. The program is ready when all of them are fulfilled.
#[derive(Clone, Debug, Default)]
pub struct Health {
    checks: Arc<Mutex<BTreeMap<&'static str, bool>>>,
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
        let mut every = tokio::time::interval(Duration::from_secs(5));
        loop {
            every.tick().await;
            upkeep.run_upkeep();
        }
    });
    let process = metrics_process::Collector::default();
    process.describe();
    let metrics = warp::path!("metrics").map(move || {
        process.collect();
        metrics.render()
    });
    let livez = warp::path!("livez").map(|| "alive\n");
    let readyz = warp::path!("readyz").map(move || {
        let readiness = health.readiness();
        let status = if readiness.ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        warp::reply::with_status(warp::reply::json(&readiness), status).into_response()
    });
    // D34: HEAD gets the same response as GET, without the body.
    let routes = warp::get().or(warp::head()).unify().and(metrics.or(livez).or(readyz));
    tokio::spawn(accept(listener, routes));
    Ok(())
}

/// The error of an address that cannot be listened on, with the setting that names it.
pub fn cannot_listen(setting: &str, addr: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("setting {setting}: cannot listen on {addr}: {error}"))
}

async fn accept<F>(listener: TcpListener, routes: F)
where
    F: Filter<Error = warp::Rejection> + Clone + Send + Sync + 'static,
    F::Extract: Reply,
    F::Future: Send,
{
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    // The semaphore is never closed, so there is no error.
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let Ok((socket, _)) = listener.accept().await else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let service = require_host(TowerToHyperService::new(warp::service(routes.clone())));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(socket), service);
        tokio::spawn(async move {
            let mut connection = pin!(connection);
            // Errors of a connection concern its client only.
            if timeout(CONNECTION_TIMEOUT, connection.as_mut()).await.is_err() {
                connection.as_mut().graceful_shutdown();
                drop(timeout(HEADER_TIMEOUT, connection).await);
            }
            drop(permit);
        });
    }
}
