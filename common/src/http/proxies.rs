//! Trusted proxies, whose headers name the peer of a request.

use super::forwarded;
use crate::settings::{Environment, Networks, Section, SettingError, Variable};
use crate::variables;
use hyper::HeaderMap;
use std::net::IpAddr;

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
            TrustedProxies::from_env(&Environment::from_pairs(&[("CONNECT_TRUSTED_PROXIES", "10.0.0.0/8")]))
                .unwrap();
        let proxy = IpAddr::from([10, 0, 0, 1]);
        let mut headers = HeaderMap::new();
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "nobody".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), IpAddr::from([192, 0, 2, 1]));
    }
}
