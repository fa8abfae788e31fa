//! The accept loop: HTTP/1.1 connections, a bounded number of them, drained at the end.
//!
//! Requests that aren't HTTP never reach a route: hyper answers them by itself, with 400, 414 or 431 and no body.

use crate::observe::observed;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use warp::Filter;
use warp::reply::Response;

/// The wait after a failure to accept, such as when file descriptors are used up.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Bytes of a connection's read buffer, and with that of a request's head; a larger head is answered with 431. A
/// quarter of a gigabyte for all connections at the default bound.
const READ_BUFFER: usize = 64 * 1024;

/// How connections are served.
#[derive(Clone, Copy, Debug)]
pub struct ServerSettings {
    /// Most connections at once; further ones wait in the listener's backlog.
    pub max_connections: u32,
    /// How long a head may take, and a connection may idle.
    pub header_timeout: Duration,
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
    let connections = Arc::new(Semaphore::new(settings.max_connections as usize));
    while let Some((socket, place)) = shutdown.run_until_cancelled(accept(&listener, &connections)).await {
        let connection = serve_connection(socket, routes.clone(), settings.header_timeout, shutdown.clone());
        tokio::spawn(async move {
            connection.await;
            drop::<OwnedSemaphorePermit>(place);
        });
    }
    drop(listener);
    // Every connection holds a place, so having them all means that none is left.
    if timeout(settings.drain_within, connections.acquire_many(settings.max_connections)).await.is_err() {
        let left = settings.max_connections as usize - connections.available_permits();
        tracing::warn!(connections = left, "drain took too long; closing what is left");
    }
}

/// The next connection, once there is a place for it.
async fn accept(listener: &TcpListener, connections: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    let place = Arc::clone(connections).acquire_owned().await.expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((socket, _)) => return (socket, place),
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

async fn serve_connection<F>(
    socket: TcpStream,
    routes: F,
    header_timeout: Duration,
    shutdown: CancellationToken,
) where
    F: Filter<Extract = (Response,), Error = Infallible> + Clone + Send + Sync + 'static,
    F::Future: Send,
{
    // Answers are small and wanted now. Failing to say so harms nothing.
    drop(socket.set_nodelay(true));
    let routes = TowerToHyperService::new(warp::service(routes));
    let service = service_fn(|request| observed(&routes, request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = shutdown.cancelled() => {
            // An idle connection closes now, one with a request under way after its answer.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
