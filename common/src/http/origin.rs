//! Where a request comes from: its connection, or the peer that a trusted proxy names, whose share each of its requests uses.

use super::connections::{ArrivingBody, Connection, ConnectionRefusal, PeerShare};
use super::proxies::TrustedProxies;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::shares::Network;
use hyper::HeaderMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Limits the log lines of refused requests of peers behind a proxy.
static REFUSED_REQUESTS: LogLimit<3> = LogLimit::new();

/// The origin of a request.
#[derive(Clone, Debug)]
pub struct RequestOrigin {
    peer: IpAddr,
    is_behind_proxy: bool,
    connection: Arc<Connection>,
}

impl RequestOrigin {
    /// That of a request with these headers.
    pub fn of(connection: &Arc<Connection>, proxies: &TrustedProxies, headers: &HeaderMap) -> Self {
        let peer = connection.peer();
        let is_behind_proxy = proxies.contains(peer);
        let peer = if is_behind_proxy { proxies.peer_behind(peer, headers) } else { peer };
        Self { peer, is_behind_proxy, connection: Arc::clone(connection) }
    }

    /// The caller's address: the other end of the connection, or the address that a trusted proxy names.
    pub const fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Notes that the request's body is arriving slowly.
    pub fn begin_body(&self) -> ArrivingBody<'_> {
        self.connection.begin_body()
    }

    /// Takes a part of the share of the peer, when a proxy passes the request on. The error says which share is used up.
    pub fn take_share(&self) -> Result<Option<PeerShare<'_>>, ConnectionRefusal> {
        if !self.is_behind_proxy {
            return Ok(None);
        }
        self.connection.take_share(self.peer).map(Some).inspect_err(|share| {
            let (reason, network) = (share.as_str(), Network::of(self.peer));
            limited!(REFUSED_REQUESTS[*share as usize], warn, reason, %network, "request refused: too many requests of its peer");
        })
    }
}
