//! Networks of proxies that a program trusts.

use super::SettingValue;
use ipnet::IpNet;
use std::net::IpAddr;
use std::sync::Arc;

/// Networks and single addresses, none of which contains everybody.
#[derive(Clone, Debug, Default)]
pub struct Networks(Arc<[IpNet]>);

impl Networks {
    /// Whether `address` is in one of the networks.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl SettingValue for Networks {
    fn parse_setting(text: &str) -> Result<Self, String> {
        let networks: Option<Arc<[IpNet]>> = text.split(',').map(|item| network(item.trim())).collect();
        let networks = networks.ok_or("must be networks or addresses such as 10.0.0.0/8,2001:db8::/32,192.0.2.7")?;
        if networks.iter().any(|network| network.prefix_len() == 0) {
            // Otherwise everybody could send what only a trusted proxy may.
            return Err("must not have a network of prefix length 0, which contains every caller".to_owned());
        }
        Ok(Self(networks))
    }
}

/// A network, or the network of a single address. One of IPv4 addresses that are mapped into IPv6 would match nothing,
/// because addresses are compared in their IPv4 form.
fn network(text: &str) -> Option<IpNet> {
    let network =
        text.parse().or_else(|_| text.parse().map(|address: IpAddr| IpNet::from(address.to_canonical()))).ok()?;
    let is_mapped = matches!(network, IpNet::V6(network) if network.addr().to_ipv4_mapped().is_some());
    (!is_mapped).then_some(network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_networks_and_addresses_and_refuses_everything_else() {
        let networks = Networks::parse_setting("10.0.0.0/8, 192.0.2.7,2001:db8::/32").unwrap();
        for trusted in ["10.255.0.1", "::ffff:10.0.0.1", "192.0.2.7", "2001:db8:1::1"] {
            assert!(networks.contains(trusted.parse().unwrap()), "{trusted}");
        }
        for other in ["11.0.0.1", "192.0.2.8", "2001:db9::1", "::a00:1"] {
            assert!(!networks.contains(other.parse().unwrap()), "{other}");
        }
        for wrong in ["10.0.0.0/33", "10.0.0.0/8,", "proxy.example", "10.0.0.0-10.0.0.9", "::ffff:10.0.0.0/104"] {
            assert!(Networks::parse_setting(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn refuses_a_network_of_everybody() {
        for everybody in ["0.0.0.0/0", "10.0.0.0/8,::/0", "192.0.2.1/0"] {
            let refusal = Networks::parse_setting(everybody).unwrap_err();
            assert!(refusal.contains("prefix length 0"), "{everybody}: {refusal}");
        }
    }
}
