//! The HTTP/1.1 server of all programs: limited connections, drained at shutdown.

use super::connections::{Connection, ConnectionLimits, Connections};
use super::socket::HttpSocket;
use super::times::ConnectionTimes;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::periodic::ticks;
use crate::settings::Networks;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{HeaderMap, Request, StatusCode, Uri, Version};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::future::pending;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warp::Reply;
use warp::reply::Response;

/// The wait after a failure to accept, such as when file descriptors are used up.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// How often idle connections are checked.
const IDLE_CHECK: Duration = Duration::from_millis(500);
/// Bytes of a connection's read buffer, which also limits a request's head; a larger head gets 431. At ingest's default limit
/// these are a quarter of a gigabyte for all connections.
const READ_BUFFER: usize = 64 * 1024;

/// Limits the log lines of failures to accept.
static ACCEPT_FAILURES: LogLimit<1> = LogLimit::new();

/// How a server handles its connections.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Its limits.
    pub limits: ConnectionLimits,
    /// Trusted proxies, whose own connections have no share.
    pub proxies: Networks,
    /// How long the drain may take.
    pub drain_within: Duration,
    /// Whether the number of connections is exported: of one server of a program.
    pub is_observed: bool,
}

impl ServerSettings {
    /// Those of a server for a few callers: 256 connections, of which one address may have half and one network three quarters.
    pub fn small(drain_within: Duration) -> Self {
        let times = ConnectionTimes::DEFAULT;
        let limits = ConnectionLimits { all: 256, per_peer: 128, per_network: 192, spare: 0, times };
        Self { limits, proxies: Networks::default(), drain_within, is_observed: false }
    }
}

async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => {
                // Responses are small and should be sent at once. A failure to set the option is harmless.
                drop(socket.set_nodelay(true));
                return (socket, peer.ip());
            }
            Err(error) => {
                limited!(ACCEPT_FAILURES[0], warn, %error, "accepting a connection failed; retrying in 50 ms");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Serves the connections of `listener` until `shutdown`, each with the service that `service` returns for it; then accepts
/// nothing more, lets requests under way finish, and returns once all connections are closed or the drain has taken too long.
///
/// Malformed HTTP never reaches a service: hyper responds by itself, with 400, 414 or 431 and no body. Of a head with both
/// `Content-Length` and `Transfer-Encoding` it reads the body by its chunks, and closes the connection after the response
/// (RFC 9112, 6.1).
pub async fn serve<S>(
    listener: TcpListener, settings: ServerSettings, service: impl Fn(Arc<Connection>) -> S,
    shutdown: &CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send + Sync + 'static,
{
    let connections = Connections::new(settings.limits, settings.is_observed);
    let tasks = TaskTracker::new();
    let idle = connections.clone();
    let closing = shutdown.run_until_cancelled(async {
        let mut ticks = ticks(IDLE_CHECK);
        loop {
            ticks.tick().await;
            idle.close_idle();
        }
    });
    let accepting = async {
        while let Some((socket, peer)) = shutdown.run_until_cancelled(accept(&listener)).await {
            // A refused connection is closed, and the loop continues with the next one.
            let Some(connection) = connections.open(peer, settings.proxies.contains(peer)) else { continue };
            let connection = Arc::new(connection);
            let service = service(Arc::clone(&connection));
            let socket = HttpSocket::new(socket, settings.limits.times);
            tasks.spawn(serve_connection(socket, connection, service, shutdown.clone()));
        }
    };
    tokio::join!(closing, accepting);
    drop(listener);
    tasks.close();
    if timeout(settings.drain_within, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "drain timed out; closing the remaining connections");
    }
}

async fn serve_connection<S>(socket: HttpSocket, connection: Arc<Connection>, service: S, shutdown: CancellationToken)
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send + Sync,
{
    let state = socket.state();
    let service = service_fn(async |request| {
        // No request begins on a connection that is being closed.
        let Some(_under_way) = connection.begin_request() else { return pending().await };
        let _step = state.begin_request();
        let response = service.call(request).await;
        // Such a caller may still be sending, also during the drain.
        if response.as_ref().is_ok_and(|response| response.headers().contains_key(CONNECTION)) {
            state.set_lingering(true);
        }
        response
    });
    let http = http1::Builder::new()
        .header_read_timeout(None)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    let mut http = pin!(http);
    let ended = tokio::select! {
        biased;
        () = connection.until_closed() => return,
        ended = http.as_mut() => ended,
        () = shutdown.cancelled() => {
            // An idle connection closes now, one with a request under way after its response. Neither lingers.
            state.set_lingering(false);
            http.as_mut().graceful_shutdown();
            tokio::select! {
                biased;
                () = connection.until_closed() => return,
                ended = http => ended,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "HTTP connection closed with an error");
    }
}

/// Refuses requests that violate D34 with 400, on servers that have no stricter rules of their own: HTTP/1.1 needs exactly one
/// `Host`, and a server that is no proxy needs a path.
pub fn with_host<S>(
    service: S,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>
where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send>,
{
    service_fn(move |request: Request<Incoming>| {
        let response = check_head(&request).map(|()| service.call(request));
        async move {
            match response {
                Ok(response) => response.await,
                Err(text) => Ok(refuse(text)),
            }
        }
    })
}

fn check_head<B>(request: &Request<B>) -> Result<(), &'static str> {
    if !has_host(request.headers(), request.version()) {
        Err("the request must have one Host header\n")
    } else if !has_path(request.uri()) {
        Err("the request target must begin with /\n")
    } else {
        Ok(())
    }
}

fn has_host(headers: &HeaderMap, version: Version) -> bool {
    match headers.get_all(HOST).iter().count() {
        0 => version != Version::HTTP_11,
        1 => true,
        _ => false,
    }
}

/// Neither `host:port`, as of `CONNECT`, nor `*`.
fn has_path(target: &Uri) -> bool {
    target.path().starts_with('/') && (target.authority().is_none() || target.scheme().is_some())
}

fn refuse(text: &'static str) -> Response {
    let mut response = warp::reply::with_status(text, StatusCode::BAD_REQUEST).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
