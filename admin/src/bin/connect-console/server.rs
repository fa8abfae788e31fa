//! The accept loop: a bounded number of connections, drained at shutdown.

use crate::app::App;
use crate::dispatch;
use crate::fields::Fields;
use crate::request::{Request, read_body};
use bytes::Buf;
use common::host_header::require_host;
use futures_util::Stream;
use hyper::server::conn::http1;
use hyper::{HeaderMap, Method};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::{LocalPoolHandle, TaskTracker};
use uuid::Uuid;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection};

/// Maximum number of connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 256;
/// How long a request's head may take, and how long a connection may be idle. Short, because clients without credentials could
/// keep all connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Wait before the next attempt after accepting a connection has failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Bytes of a connection's read buffer, which also limits a request's head; a larger head gets 431.
const READ_BUFFER: usize = 64 * 1024;
/// Threads that handle requests. Each request stays on one.
const THREADS: usize = 2;

/// Serves the console until `shutdown`; then lets requests under way finish, for at most `drain_within`.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    drain_within: Duration,
    shutdown: &CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let (threads, tasks) = (LocalPoolHandle::new(THREADS), TaskTracker::new());
    // The semaphore is never closed, so there is no error.
    while let Some(Ok(permit)) = shutdown.run_until_cancelled(Arc::clone(&permits).acquire_owned()).await {
        let Some(accepted) = shutdown.run_until_cancelled(listener.accept()).await else { break };
        let Ok((socket, peer)) = accepted else {
            sleep(ACCEPT_RETRY).await;
            continue;
        };
        let routes = routes(Arc::clone(&app), threads.clone(), peer.ip());
        let shutdown = shutdown.clone();
        tasks.spawn(async move {
            serve_connection(socket, routes, &shutdown).await;
            drop(permit);
        });
    }
    drop(listener);
    tasks.close();
    if timeout(drain_within, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "drain timed out; closing the remaining connections");
    }
}

async fn serve_connection<F>(socket: TcpStream, routes: F, shutdown: &CancellationToken)
where
    F: Filter<Extract = (Response,), Error = Rejection> + Clone + Send + Sync + 'static,
    F::Future: Send,
{
    // Responses are small and should be sent at once. A failure to set the option is harmless.
    drop(socket.set_nodelay(true));
    let service = require_host(TowerToHyperService::new(warp::service(routes)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    // Errors of a connection concern its client only.
    tokio::select! {
        ended = connection.as_mut() => drop(ended),
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            drop(connection.await);
        }
    }
}

/// All requests of a connection, whatever their path: [`dispatch`] finds the route.
fn routes(
    app: Arc<App>,
    threads: LocalPoolHandle,
    peer: IpAddr,
) -> impl Filter<Extract = (Response,), Error = Rejection, Future: Send> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let parts = warp::method().and(warp::path::full()).and(query).and(warp::header::headers_cloned());
    parts.and(warp::body::stream()).then(move |method, path: FullPath, query, headers, body| {
        let (app, threads) = (Arc::clone(&app), threads.clone());
        let path = path.as_str().to_owned();
        async move { respond(app, threads, peer, (method, path, query, headers), Box::pin(body)).await }
    })
}

/// Reads the body and lets a thread handle the request. The operation runs to completion even if its client disconnects: a change
/// is made completely or not at all.
async fn respond<S, B, E>(
    app: Arc<App>,
    threads: LocalPoolHandle,
    peer: IpAddr,
    (method, path, raw_query, headers): (Method, String, String, HeaderMap),
    body: S,
) -> Response
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    let body = read_body(&headers, body).await;
    // Unreadable queries are treated as missing ones: every page has defaults.
    let query = Fields::parse(raw_query.as_bytes()).unwrap_or_default();
    let request = Arc::new(Request { id: Uuid::now_v7(), peer, method, path, query, headers });
    let (shared, handled) = (Arc::clone(&app), Arc::clone(&request));
    let handling = threads.spawn_pinned(|| async move { dispatch::respond(&shared, &handled, body).await });
    handling.await.unwrap_or_else(|_| dispatch::respond_after_panic(&app, &request))
}
