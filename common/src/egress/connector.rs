//! The only way to connect to a receiver: resolves the host, checks every address, connects to one of the checked addresses, and
//! performs the TLS handshake (D27). It reads no proxy variables of the environment.

use super::network::Network;
use super::stream::{OpenConnections, ReceiverStream};
use super::{EgressSettings, Host, ReceiverUrl, Scheme};
use crate::limited;
use crate::log_limit::LogLimit;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use std::{fmt, io};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// Maximum number of addresses of a host that are tried; all of them are checked.
const TRIED: usize = 8;
/// Bounds the log lines of hosts that are refused.
static REFUSED: LogLimit<1> = LogLimit::new();

/// Connects to receivers. It checks every address, whether it comes from the URL or from name resolution.
#[derive(Clone)]
pub struct Connector(Arc<ConnectorInner>);

struct ConnectorInner {
    network: Arc<dyn Network>,
    egress: EgressSettings,
    tls: TlsConnector,
    timeout: Duration,
    open: OpenConnections,
}

impl Connector {
    /// `timeout` limits the time to connect, and the time to send each request.
    pub fn new(network: Arc<dyn Network>, egress: EgressSettings, tls: Arc<ClientConfig>, timeout: Duration) -> Self {
        let open = OpenConnections::default();
        Self(Arc::new(ConnectorInner { network, egress, tls: TlsConnector::from(tls), timeout, open }))
    }

    async fn connect(self, target: String) -> Result<TokioIo<ReceiverStream>, ConnectError> {
        // The connection is established even if its request has timed out, so it has its own deadline.
        let deadline = Instant::now() + self.0.timeout;
        let connecting = self.0.connect(&target, deadline);
        timeout_at(deadline, connecting).await.unwrap_or(Err(ConnectError::TimedOut)).map(TokioIo::new)
    }
}

impl ConnectorInner {
    async fn connect(&self, target: &str, deadline: Instant) -> Result<ReceiverStream, ConnectError> {
        // The same parser as for the subscription's URL, so that both mean the same host.
        let url = ReceiverUrl::parse(target).map_err(refused_url)?;
        self.egress.check_url(&url).map_err(refused_url)?;
        let addresses = self.resolve_and_check(url.host()).await?;
        let stream = self.dial(&addresses, url.port(), deadline).await?;
        match url.scheme() {
            Scheme::Http => Ok(ReceiverStream::plain(stream, self.timeout, &self.open)),
            Scheme::Https => self.perform_tls_handshake(stream, url.host()).await,
        }
    }

    /// The addresses of a host. If one of them is refused, the host is refused, as when a subscription is created.
    async fn resolve_and_check(&self, host: &Host) -> Result<Vec<IpAddr>, ConnectError> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.network.resolve(name).await.map_err(ConnectError::NotResolved)?,
        };
        if addresses.is_empty() {
            return Err(ConnectError::NotResolved("it has no address".to_owned()));
        }
        for address in &addresses {
            if let Err(why) = self.egress.check_address(*address) {
                limited!(REFUSED[0], warn, ?host, %address, why, "host of a receiver is not public; the attempt fails");
                // The owner of the subscription sees the error, and must not learn addresses of the internal network.
                return Err(ConnectError::Refused("the host is not public".to_owned()));
            }
        }
        Ok(addresses)
    }

    /// Tries the addresses in turn. Each has an equal share of the remaining time.
    async fn dial(&self, addresses: &[IpAddr], port: u16, deadline: Instant) -> Result<TcpStream, ConnectError> {
        let tried = &addresses[..addresses.len().min(TRIED)];
        let mut last = ConnectError::TimedOut;
        for (left, address) in (1..=tried.len() as u32).rev().zip(tried) {
            // The canonical form is the address that was checked.
            let address = SocketAddr::new(address.to_canonical(), port);
            let share = deadline.duration_since(Instant::now()) / left;
            match timeout(share, self.network.dial(address)).await {
                Ok(Ok(stream)) => {
                    // A request is one small write, which must not wait for an acknowledgement (Nagle's algorithm).
                    stream.set_nodelay(true).map_err(|error| ConnectError::NotConnected(address, error))?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last = ConnectError::NotConnected(address, error),
                Err(_elapsed) => last = ConnectError::TimedOut,
            }
        }
        Err(last)
    }

    async fn perform_tls_handshake(&self, stream: TcpStream, host: &Host) -> Result<ReceiverStream, ConnectError> {
        let name = match host {
            Host::Address(address) => ServerName::from(*address),
            Host::Name(name) => ServerName::try_from(name.clone())
                .map_err(|error| ConnectError::Refused(format!("the host is not a valid name for TLS: {error}")))?,
        };
        let stream = self.tls.connect(name, stream).await.map_err(ConnectError::Tls)?;
        Ok(ReceiverStream::tls(stream, self.timeout, &self.open))
    }
}

fn refused_url(what: &str) -> ConnectError {
    ConnectError::Refused(format!("url {what}"))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<ReceiverStream>;
    type Error = ConnectError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        self.clone().connect(uri.to_string()).boxed()
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector").field("egress", &self.0.egress).finish_non_exhaustive()
    }
}

/// Why there is no connection to a receiver. The texts are for operators.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// The URL or an address is not public (D27).
    #[error("{0}")]
    Refused(String),
    /// The name has no address.
    #[error("host does not resolve: {0}")]
    NotResolved(String),
    /// No address accepted a connection; holds the last one that was tried.
    #[error("cannot connect to {0}: {1}")]
    NotConnected(std::net::SocketAddr, io::Error),
    /// The TLS handshake failed.
    #[error("TLS: {0}")]
    Tls(#[source] io::Error),
    /// The time for connecting has passed.
    #[error("no connection in time")]
    TimedOut,
}
