//! The one way to a receiver: resolve, vet every address, connect to exactly one that was vetted, agree on TLS (D27).

use super::connect_error::ConnectError;
use super::network::Network;
use super::stream::{Open, ReceiverStream};
use common::egress::{EgressSettings, Host, ReceiverUrl, Scheme};
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::Uri;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// Addresses of one name that are tried; the others are vetted, too.
const TRIED: usize = 8;

/// Makes connections to receivers. Whatever names the host, the URL or the name service, its addresses are vetted here.
#[derive(Clone)]
pub(super) struct Connector(Arc<Parts>);

struct Parts {
    network: Box<dyn Network>,
    egress: EgressSettings,
    tls: TlsConnector,
    timeout: Duration,
    open: Open,
}

impl Connector {
    /// `timeout` is for one connection in all, and for each request to go out on it.
    pub(super) fn new(
        network: Box<dyn Network>,
        egress: EgressSettings,
        tls: Arc<ClientConfig>,
        timeout: Duration,
    ) -> Self {
        let open = Open::default();
        Self(Arc::new(Parts { network, egress, tls: TlsConnector::from(tls), timeout, open }))
    }

    async fn connect(self, target: String) -> Result<TokioIo<ReceiverStream>, ConnectError> {
        // It goes on when who asked for it has given up, hence a limit of its own.
        let deadline = Instant::now() + self.0.timeout;
        let connecting = self.0.connect(&target, deadline);
        timeout_at(deadline, connecting).await.unwrap_or(Err(ConnectError::TimedOut)).map(TokioIo::new)
    }
}

impl Parts {
    async fn connect(&self, target: &str, deadline: Instant) -> Result<ReceiverStream, ConnectError> {
        // Read by what read the subscription's URL, so that there is one understanding of a host.
        let url = ReceiverUrl::parse(target).map_err(refused_url)?;
        self.egress.check_url(&url).map_err(refused_url)?;
        let addresses = self.vetted(url.host()).await?;
        let stream = self.dial(&addresses, url.port(), deadline).await?;
        match url.scheme() {
            Scheme::Http => Ok(ReceiverStream::plain(stream, self.timeout, &self.open)),
            Scheme::Https => self.agree_on_tls(stream, url.host()).await,
        }
    }

    /// One address that must not be reached refuses the host, as when the subscription was made.
    async fn vetted(&self, host: &Host) -> Result<Vec<IpAddr>, ConnectError> {
        let addresses = match host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => self.network.resolve(name).await.map_err(ConnectError::NotResolved)?,
        };
        if addresses.is_empty() {
            return Err(ConnectError::NotResolved("it has no address".to_owned()));
        }
        for address in &addresses {
            let judged = self.egress.check_address(*address);
            judged.map_err(|why| ConnectError::Refused(format!("address {address} is not public: {why}")))?;
        }
        Ok(addresses)
    }

    /// Tries the addresses in turn. Each has its share of the time, the last all that is left.
    async fn dial(
        &self,
        addresses: &[IpAddr],
        port: u16,
        deadline: Instant,
    ) -> Result<TcpStream, ConnectError> {
        let tried = &addresses[..addresses.len().min(TRIED)];
        let mut last = ConnectError::TimedOut;
        for (left, address) in (1..=tried.len() as u32).rev().zip(tried) {
            // Mapped or not, it is the address that was judged.
            let address = SocketAddr::new(address.to_canonical(), port);
            let share = deadline.duration_since(Instant::now()) / left;
            match timeout(share, self.network.dial(address)).await {
                Ok(Ok(stream)) => {
                    // A request is one small write, and must not wait for the answer to another.
                    stream.set_nodelay(true).map_err(|error| ConnectError::NotConnected(address, error))?;
                    return Ok(stream);
                }
                Ok(Err(error)) => last = ConnectError::NotConnected(address, error),
                Err(_elapsed) => last = ConnectError::TimedOut,
            }
        }
        Err(last)
    }

    async fn agree_on_tls(&self, stream: TcpStream, host: &Host) -> Result<ReceiverStream, ConnectError> {
        let name = match host {
            Host::Address(address) => ServerName::from(*address),
            Host::Name(name) => ServerName::try_from(name.clone())
                .map_err(|error| ConnectError::Refused(format!("host is no name for TLS: {error}")))?,
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
