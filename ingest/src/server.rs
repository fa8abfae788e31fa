//! The accept loop: HTTP/1.1 connections, a bounded number of them, drained at the end.
//!
//! Requests that aren't HTTP never reach a route: hyper answers them by itself, with 400, 414 or 431 and no body.

use crate::connections::{ConnectionLimits, ConnectionPlace, Connections, TrustedProxies};
use crate::framing::FramingWatch;
use crate::head_timer::HeadTimer;
use crate::linger::{LingerSwitch, LingeringClose};
use crate::observe::observed;
use crate::socket::WatchedSocket;
use common::log_limit::LogLimit;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warp::Filter;
use warp::reply::Response;

/// The wait after a failure to accept, such as when file descriptors are used up.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// How often idle connections are looked at.
const IDLE_CHECK: Duration = Duration::from_millis(500);

/// Bytes of a connection's read buffer, and with that of a request's head; a larger head is answered with 431. A
/// quarter of a gigabyte for all connections at the default bound.
const READ_BUFFER: usize = 64 * 1024;

/// Which failures to accept are logged.
static ACCEPT_FAILURES: LogLimit<1> = LogLimit::new();

/// How connections are served.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Most connections at once, and how long a head may take.
    pub connections: ConnectionLimits,
    /// Proxies that name the peer of a request.
    pub trusted_proxies: TrustedProxies,
    /// How long the drain may take.
    pub drain_within: Duration,
}

/// Serves `routes` on `listener` until `shutdown`; then accepts nothing more, lets requests under way finish, and
/// returns once all connections are closed or the drain has taken too long.
pub async fn serve<F>(
    listener: TcpListener,
    routes: F,
    settings: ServerSettings,
    shutdown: &CancellationToken,
) where
    F: Filter<Extract = (Response,), Error = Infallible> + Clone + Send + Sync + 'static,
    F::Future: Send,
{
    let connections = Connections::new(settings.connections, settings.trusted_proxies);
    let tasks = TaskTracker::new();
    tokio::spawn(shutdown.clone().run_until_cancelled_owned(close_idle(connections.clone())));
    while let Some((socket, place)) = shutdown.run_until_cancelled(accept(&listener, &connections)).await {
        let header_timeout = settings.connections.header_timeout;
        tasks.spawn(serve_connection(socket, place, routes.clone(), header_timeout, shutdown.clone()));
    }
    drop(listener);
    tasks.close();
    if timeout(settings.drain_within, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "drain took too long; closing what is left");
    }
}

/// Closes idle connections as the table fills, for as long as it is polled.
async fn close_idle(connections: Connections) {
    let mut ticks = interval(IDLE_CHECK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        connections.close_idle();
    }
}

/// The next connection that there is a place for.
async fn accept(listener: &TcpListener, connections: &Connections) -> (TcpStream, ConnectionPlace) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                // One without a place is closed: there may be others behind it in the backlog.
                if let Some(place) = connections.open(peer.ip()) {
                    return (socket, place);
                }
            }
            Err(error) => {
                if let Some(line) = ACCEPT_FAILURES.admit(0) {
                    tracing::warn!(%error, suppressed = line.suppressed, "can't accept a connection");
                }
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Has the connection closed after the response.
fn closing(mut response: Response) -> Response {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

async fn serve_connection<F>(
    socket: TcpStream,
    place: ConnectionPlace,
    routes: F,
    header_timeout: Duration,
    shutdown: CancellationToken,
) where
    F: Filter<Extract = (Response,), Error = Infallible> + Clone + Send + Sync + 'static,
    F::Future: Send,
{
    // Answers are small and wanted now. Failing to say so harms nothing.
    drop(socket.set_nodelay(true));
    let framing = FramingWatch::new();
    let (faults, requests) = (framing.faults(), AtomicU64::new(0));
    let linger = LingerSwitch::new();
    let routes = TowerToHyperService::new(warp::service(routes));
    let service = service_fn(async |request| {
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        // On a connection that is being closed nothing begins.
        let Some(_under_way) = place.begin() else { return pending().await };
        let answer = observed(&routes, request, faults.of(number), &place).await;
        answer.map(|response| {
            let response = if faults.is_lost() { closing(response) } else { response };
            // Such a caller may be sending still, also while this program drains.
            if response.headers().contains_key(CONNECTION) {
                linger.set(true);
            }
            response
        })
    });
    let close = LingeringClose::new(linger.clone());
    let connection = http1::Builder::new()
        .timer(HeadTimer::new(header_timeout))
        .header_read_timeout(header_timeout)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(WatchedSocket::new(socket, framing, close)), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        biased;
        () = place.until_evicted() => return,
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            // An idle connection closes now, one with a request under way after its answer. Neither waits for its caller.
            linger.set(false);
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                () = place.until_evicted() => return,
                ended = connection => ended,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
