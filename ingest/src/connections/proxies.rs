//! Trusted proxies, whose headers name the peer of a request.

use super::forwarded;
use common::settings::{Networks, SettingValue};
use hyper::HeaderMap;
use std::net::IpAddr;

/// Networks of proxies whose header `Forwarded` or `X-Forwarded-For` names the peer of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedProxies(Networks);

impl TrustedProxies {
    /// Their networks.
    pub(crate) fn networks(&self) -> Networks {
        self.0.clone()
    }

    /// Whether `peer` is a trusted proxy.
    pub(crate) fn contains(&self, peer: IpAddr) -> bool {
        self.0.contains(peer)
    }

    /// The peer of a request that arrived from a trusted `proxy`: the address in its headers, or the proxy itself when the
    /// headers name no peer, are malformed, or contradict each other.
    pub(crate) fn peer_behind(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        forwarded::peer(headers, |address| self.contains(address)).unwrap_or(proxy).to_canonical()
    }
}

impl SettingValue for TrustedProxies {
    fn parse_setting(text: &str) -> Result<Self, String> {
        Networks::parse_setting(text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_without_a_usable_header_is_the_proxys_own() {
        let proxies = TrustedProxies::parse_setting("10.0.0.0/8").unwrap();
        let proxy = IpAddr::from([10, 0, 0, 1]);
        let mut headers = HeaderMap::new();
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "nobody".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), IpAddr::from([192, 0, 2, 1]));
    }
}
