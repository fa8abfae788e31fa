//! The HTTP/1.1 server: a bounded number of connections, drained at shutdown.
//!
//! Malformed HTTP never reaches a route: hyper responds by itself, with 400, 414 or 431 and no body.

use crate::connections::framing::FramingParser;
use crate::connections::head_timer::HeadTimer;
use crate::connections::linger::{LingerSwitch, LingeringClose};
use crate::connections::socket::HttpSocket;
use crate::connections::{ConnectionLimits, ConnectionSlot, Connections, TrustedProxies};
use crate::http::observe::observe_request;
use common::http::{accept, drain};
use common::periodic::ticks;
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
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warp::Filter;
use warp::reply::Response;

/// How often idle connections are checked.
const IDLE_CHECK: Duration = Duration::from_millis(500);

/// Bytes of a connection's read buffer, which also limits a request's head; a larger head gets 431. At the default limit
/// these are a quarter of a gigabyte for all connections.
const READ_BUFFER: usize = 64 * 1024;

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
    let idle = connections.clone();
    tokio::spawn(shutdown.clone().run_until_cancelled_owned(async move {
        let mut ticks = ticks(IDLE_CHECK);
        loop {
            ticks.tick().await;
            idle.close_idle();
        }
    }));
    while let Some((socket, peer)) = shutdown.run_until_cancelled(accept(&listener)).await {
        // A refused connection is closed, and the loop continues with the next one.
        let Some(slot) = connections.open(peer) else { continue };
        let header_timeout = settings.connections.header_timeout;
        tasks.spawn(serve_connection(socket, slot, routes.clone(), header_timeout, shutdown.clone()));
    }
    drop(listener);
    drain(tasks, settings.drain_within).await;
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
