//! The accept loop: a bounded number of HTTP/1.1 connections, drained at shutdown.
//!
//! Malformed HTTP never reaches a route: hyper responds by itself, with 400, 414 or 431 and no body.

use crate::connections::framing::FramingParser;
use crate::connections::head_timer::HeadTimer;
use crate::connections::linger::{LingerSwitch, LingeringClose};
use crate::connections::socket::HttpSocket;
use crate::connections::{ConnectionLimits, ConnectionSlot, Connections, TrustedProxies};
use crate::http::observe::observe_request;
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

/// How often idle connections are checked.
const IDLE_CHECK: Duration = Duration::from_millis(500);

/// Bytes of a connection's read buffer, which also limits a request's head; a larger head gets 431. At the default limit
/// these are a quarter of a gigabyte for all connections.
const READ_BUFFER: usize = 64 * 1024;

/// Limits the log lines of failures to accept.
static ACCEPT_FAILURES: LogLimit<1> = LogLimit::new();

/// How connections are served.
#[derive(Clone, Debug)]
pub(crate) struct ServerSettings {
    /// The most open connections, and how long a head may take to arrive.
    pub(crate) connections: ConnectionLimits,
    /// Proxies that name the peer of a request.
    pub(crate) trusted_proxies: TrustedProxies,
    /// How long the drain may take.
    pub(crate) drain_within: Duration,
}

/// Serves `routes` on `listener` until `shutdown`; then accepts nothing more, lets requests under way finish, and
/// returns once all connections are closed or the drain has taken too long.
pub(crate) async fn serve<F>(
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
    while let Some((socket, slot)) = shutdown.run_until_cancelled(accept(&listener, &connections)).await {
        let header_timeout = settings.connections.header_timeout;
        tasks.spawn(serve_connection(socket, slot, routes.clone(), header_timeout, shutdown.clone()));
    }
    drop(listener);
    tasks.close();
    if timeout(settings.drain_within, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "drain timed out; closing the remaining connections");
    }
}

/// Closes idle connections periodically, for as long as it is polled.
async fn close_idle(connections: Connections) {
    let mut ticks = interval(IDLE_CHECK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        connections.close_idle();
    }
}

/// Accepts the next connection that the limits admit.
async fn accept(listener: &TcpListener, connections: &Connections) -> (TcpStream, ConnectionSlot) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                // A refused connection is closed, and the loop continues with the next one.
                if let Some(slot) = connections.open(peer.ip()) {
                    return (socket, slot);
                }
            }
            Err(error) => {
                if let Some(line) = ACCEPT_FAILURES.admit(0) {
                    tracing::warn!(%error, suppressed = line.suppressed, "accepting a connection failed; retrying in 50 ms");
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
    slot: ConnectionSlot,
    routes: F,
    header_timeout: Duration,
    shutdown: CancellationToken,
) where
    F: Filter<Extract = (Response,), Error = Infallible> + Clone + Send + Sync + 'static,
    F::Future: Send,
{
    // Responses are small and should be sent at once. A failure to set the option is harmless.
    drop(socket.set_nodelay(true));
    let framing = FramingParser::new();
    let (faults, requests) = (framing.faults(), AtomicU64::new(0));
    let linger = LingerSwitch::new();
    let routes = TowerToHyperService::new(warp::service(routes));
    let service = service_fn(async |request| {
        let number = requests.fetch_add(1, Ordering::Relaxed) + 1;
        // No request begins on a connection that is being closed.
        let Some(_under_way) = slot.begin() else { return pending().await };
        let observed = observe_request(&routes, request, faults.of(number), &slot).await;
        observed.map(|response| {
            let response = if faults.has_stopped() { closing(response) } else { response };
            // Such a caller may still be sending, also during the drain.
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
        .serve_connection(TokioIo::new(HttpSocket::new(socket, framing, close)), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        biased;
        () = slot.until_evicted() => return,
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            // An idle connection closes now, one with a request under way after its response. Neither lingers.
            linger.set(false);
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                () = slot.until_evicted() => return,
                ended = connection => ended,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP connection closed with an error");
    }
}
