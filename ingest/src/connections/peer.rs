//! The network of a peer's address. Some limits apply to all addresses of a network together.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The network of a peer: the first 24 bits of an IPv4 address, the first 64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Network(IpAddr);

impl Network {
    /// The network of an address. An IPv4 address that is mapped into IPv6 is the IPv4 address.
    pub(crate) fn of(peer: IpAddr) -> Self {
        Self(match peer.to_canonical() {
            IpAddr::V4(peer) => Ipv4Addr::from_bits(peer.to_bits() & !0xff).into(),
            IpAddr::V6(peer) => Ipv6Addr::from_bits(peer.to_bits() & !u128::from(u64::MAX)).into(),
        })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = if self.0.is_ipv4() { 24 } else { 64 };
        write!(f, "{}/{bits}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_the_first_part_of_an_address() {
        for (peer, network) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.78", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ] {
            assert_eq!(Network::of(peer.parse().unwrap()).to_string(), network);
        }
    }
}
