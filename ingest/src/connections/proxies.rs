//! Which peers are proxies whose word on the peer behind them is taken.

use super::forwarded;
use common::settings::SettingValue;
use hyper::HeaderMap;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;

/// Networks of proxies whose header `Forwarded` or `X-Forwarded-For` names the peer of a request.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Whether `peer` is such a proxy.
    pub(crate) fn contain(&self, peer: IpAddr) -> bool {
        let peer = peer.to_canonical();
        self.0.iter().any(|network| network.contains(&peer))
    }

    /// The peer of a request that arrived from `proxy`, which is trusted: whom its headers name, or the proxy itself where
    /// they name nobody, can't be read, or contradict each other.
    pub(crate) fn peer_behind(&self, proxy: IpAddr, headers: &HeaderMap) -> IpAddr {
        forwarded::peer(headers, |address| self.contain(address)).unwrap_or(proxy).to_canonical()
    }
}

impl SettingValue for TrustedProxies {
    fn read(text: &str) -> Result<Self, String> {
        let networks: Option<Arc<[IpNet]>> = text.split(',').map(|item| network(item.trim())).collect();
        let networks =
            networks.ok_or("must be networks or addresses such as 10.0.0.0/8,2001:db8::/32,192.0.2.7")?;
        if networks.iter().any(|network| network.prefix_len() == 0) {
            // Whoever connects would choose the address that its requests are counted for.
            return Err("must not have a network of prefix length 0, which contains every caller".to_owned());
        }
        Ok(Self(networks))
    }
}

/// A network, or the network of a single address. One of IPv4 addresses that are mapped into IPv6 would match nothing,
/// because addresses are compared in their IPv4 form.
fn network(text: &str) -> Option<IpNet> {
    let network = text
        .parse()
        .or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical())))
        .ok()?;
    let is_mapped = matches!(network, IpNet::V6(network) if network.addr().to_ipv4_mapped().is_some());
    (!is_mapped).then_some(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_networks_and_addresses_and_refuses_everything_else() {
        let proxies = TrustedProxies::read("10.0.0.0/8, 192.0.2.7,2001:db8::/32").unwrap();
        for trusted in ["10.255.0.1", "::ffff:10.0.0.1", "192.0.2.7", "2001:db8:1::1"] {
            assert!(proxies.contain(trusted.parse().unwrap()), "{trusted}");
        }
        for other in ["11.0.0.1", "192.0.2.8", "2001:db9::1", "::a00:1"] {
            assert!(!proxies.contain(other.parse().unwrap()), "{other}");
        }
        for wrong in
            ["10.0.0.0/33", "10.0.0.0/8,", "proxy.example", "10.0.0.0-10.0.0.9", "::ffff:10.0.0.0/104"]
        {
            assert!(TrustedProxies::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refuses_a_network_of_everybody() {
        for everybody in ["0.0.0.0/0", "10.0.0.0/8,::/0", "192.0.2.1/0"] {
            let refusal = TrustedProxies::read(everybody).unwrap_err();
            assert!(refusal.contains("prefix length 0"), "{everybody}: {refusal}");
        }
    }

    #[test]
    fn a_request_without_a_usable_header_is_the_proxys_own() {
        let proxies = TrustedProxies::read("10.0.0.0/8").unwrap();
        let proxy = IpAddr::from([10, 0, 0, 1]);
        let mut headers = HeaderMap::new();
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "nobody".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), proxy);
        headers.insert("x-forwarded-for", "::ffff:192.0.2.1".parse().unwrap());
        assert_eq!(proxies.peer_behind(proxy, &headers), IpAddr::from([192, 0, 2, 1]));
    }
}
