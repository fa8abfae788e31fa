//! The server of the operator's port, of the settings area and of `connect-receiver`: HTTP/1.1 with a bounded number of connections,
//! of which each address has a share. Ingest shares the accept loop and the drain, and has limits of its own.

use crate::limited;
use crate::log_limit::LogLimit;
use crate::shares::Counts;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper::{HeaderMap, Request, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use warp::Reply;
use warp::reply::Response;

/// The wait after a failure to accept, such as when file descriptors are used up.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// Age after which a connection is closed after its next response, so that a client that does not read its responses cannot
/// occupy a connection forever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes of a connection's read buffer, which also limits a request's head; a larger head gets 431.
const READ_BUFFER: usize = 64 * 1024;

/// Limits the log lines of failures to accept.
static ACCEPT_FAILURES: LogLimit<1> = LogLimit::new();

/// The limits of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Connections at once; further ones wait to be accepted.
    pub connections: usize,
    /// Connections of one address at once; further ones are closed.
    pub per_peer: usize,
    /// How long a request's head may take, and how long a connection may be idle.
    pub header_timeout: Duration,
    /// How long the drain may take.
    pub drain_within: Duration,
}

/// Accepts the next connection.
pub async fn accept(listener: &TcpListener) -> (TcpStream, IpAddr) {
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

/// Waits until the tasks of all connections have ended, for at most `within`.
pub async fn drain(connections: TaskTracker, within: Duration) {
    connections.close();
    if timeout(within, connections.wait()).await.is_err() {
        let left = connections.len();
        tracing::warn!(connections = left, "drain timed out; closing the remaining connections");
    }
}

/// Serves the connections of `listener` until `shutdown`, each with the service that `service` returns for its address; then lets
/// requests under way finish.
pub async fn serve<S>(
    listener: TcpListener,
    limits: ServerLimits,
    service: impl Fn(IpAddr) -> S,
    shutdown: &CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(limits.connections));
    let (shares, tasks) = (Arc::new(Mutex::new(Counts::default())), TaskTracker::new());
    let next = async || {
        // The semaphore is never closed, so there is no error.
        let permit = Arc::clone(&permits).acquire_owned().await.ok();
        (accept(&listener).await, permit)
    };
    while let Some(((socket, peer), permit)) = shutdown.run_until_cancelled(next()).await {
        let Some(share) = ConnectionShare::take(&shares, peer, limits.per_peer) else { continue };
        let (service, shutdown) = (service(peer), shutdown.clone());
        tasks.spawn(async move {
            serve_connection(socket, service, limits.header_timeout, &shutdown).await;
            drop((share, permit));
        });
    }
    drop(listener);
    drain(tasks, limits.drain_within).await;
}

/// A connection as part of the share of its address; returned when dropped.
struct ConnectionShare {
    shares: Arc<Mutex<Counts<IpAddr>>>,
    peer: IpAddr,
}

impl ConnectionShare {
    fn take(shares: &Arc<Mutex<Counts<IpAddr>>>, peer: IpAddr, most: usize) -> Option<Self> {
        let peer = peer.to_canonical();
        let mut counts = shares.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.of(&peer) >= most {
            return None;
        }
        counts.add(peer, 1);
        Some(Self { shares: Arc::clone(shares), peer })
    }
}

impl Drop for ConnectionShare {
    fn drop(&mut self) {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).subtract(&self.peer, 1);
    }
}

async fn serve_connection<S>(
    socket: TcpStream,
    service: S,
    header_timeout: Duration,
    shutdown: &CancellationToken,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + Send,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let response = check_head(&request).map(|()| service.call(request));
        async move {
            match response {
                Ok(response) => response.await,
                Err(text) => Ok(refuse(text)),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(header_timeout)
        .max_buf_size(READ_BUFFER)
        .serve_connection(TokioIo::new(socket), service);
    let mut connection = pin!(connection);
    // Errors of a connection concern its client only.
    tokio::select! {
        ended = connection.as_mut() => return drop(ended),
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            return drop(connection.await);
        }
        () = sleep(CONNECTION_TIMEOUT) => {}
    }
    connection.as_mut().graceful_shutdown();
    drop(timeout(header_timeout, connection).await);
}

/// D34: HTTP/1.1 needs exactly one `Host`, and a server that is no proxy needs a path. Ingest has stricter rules of its own.
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

#[cfg(test)]
mod tests {
    use super::*;
    use hyper_util::service::TowerToHyperService;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use warp::Filter as _;

    #[test]
    fn http_1_1_needs_one_host() {
        let (none, mut headers) = (HeaderMap::new(), HeaderMap::new());
        headers.append(HOST, HeaderValue::from_static("a"));
        assert!(has_host(&headers, Version::HTTP_11) && has_host(&none, Version::HTTP_10));
        assert!(!has_host(&none, Version::HTTP_11));
        headers.append(HOST, HeaderValue::from_static("a"));
        assert!(!has_host(&headers, Version::HTTP_11) && !has_host(&headers, Version::HTTP_10));
    }

    #[test]
    fn a_target_is_a_path() {
        for (target, is_path) in [("/a?b", true), ("http://a/b", true), ("*", false), ("a:80", false)] {
            assert_eq!(has_path(&target.parse().unwrap()), is_path, "{target}");
        }
    }

    #[tokio::test]
    async fn an_address_has_a_share_of_the_connections_and_gets_it_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limits = ServerLimits {
            connections: 4,
            per_peer: 2,
            header_timeout: Duration::from_secs(30),
            drain_within: Duration::from_secs(30),
        };
        let shutdown = CancellationToken::new();
        let routes = warp::any().map(|| "fine");
        let service = |_| TowerToHyperService::new(warp::service(routes));
        let requests = async {
            let mut held =
                [TcpStream::connect(address).await.unwrap(), TcpStream::connect(address).await.unwrap()];
            for socket in &mut held {
                assert!(ask(socket).await.starts_with("HTTP/1.1 200 OK"));
            }
            let mut third = TcpStream::connect(address).await.unwrap();
            assert_eq!(ask(&mut third).await, "", "the share of the address is used up");
            drop(held);
            loop {
                let mut third = TcpStream::connect(address).await.unwrap();
                if !ask(&mut third).await.is_empty() {
                    break;
                }
            }
            shutdown.cancel();
        };
        timeout(Duration::from_secs(20), async {
            tokio::join!(serve(listener, limits, service, &shutdown), requests)
        })
        .await
        .expect("the server ends");
    }

    /// The response to a request; empty if the connection is closed.
    async fn ask(socket: &mut TcpStream) -> String {
        let mut bytes = [0; 1_000];
        if socket.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.is_err() {
            return String::new();
        }
        let read = socket.read(&mut bytes).await.unwrap_or(0);
        String::from_utf8_lossy(&bytes[..read]).into_owned()
    }
}
