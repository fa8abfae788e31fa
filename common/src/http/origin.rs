//! Where a request comes from: its connection, or the peer that a trusted proxy names, whose share each of its requests uses.

use super::connections::{ArrivingBody, Connection, ConnectionRefusal, PeerShare};
use super::forwarded;
use crate::log_limit::LogLimit;
use crate::settings::{Environment, Networks, Section, SettingError, Variable};
use crate::shares::Network;
use crate::{limited, variables};
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

/// Networks of proxies whose header `Forwarded` or `X-Forwarded-For` names the peer of a request.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Networks);

impl TrustedProxies {
    /// Their networks.
    pub fn networks(&self) -> Networks {
        self.0.clone()
    }

    /// Whether `peer` is a trusted proxy.
    pub fn contains(&self, peer: IpAddr) -> bool {
        self.0.contains(peer)
    }

    /// The peer of a request that arrived from a trusted `proxy`: the address in its headers, or the proxy itself when the
    /// headers name no peer, are malformed, or contradict each other.
    pub fn peer_behind(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        forwarded::peer(headers, |address| self.contains(address)).unwrap_or(proxy).to_canonical()
    }
}

impl Section for TrustedProxies {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_TRUSTED_PROXIES" => optional, "networks of reverse proxies, such as 10.0.0.0/8,192.0.2.7, whose header Forwarded or X-Forwarded-For names the peer; their own connections are not limited per peer; instead, the limits on connections of a peer and of a network apply to the concurrent requests of each peer and network behind them; beyond them 503";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self(env.optional::<Self, _>("CONNECT_TRUSTED_PROXIES")?.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_a_usable_header_is_the_proxys_own() {
        let proxies =
            TrustedProxies::from_env(&Environment::from_pairs(&[("CONNECT_TRUSTED_PROXIES", "10.0.0.0/8")])).unwrap();
        let proxy = IpAddr::from([10, 0, 0, 1]);
        let mut headers = HeaderMap::new();
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "nobody".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), IpAddr::from([192, 0, 2, 1]));
    }
}
