//! What each of many callers holds of something limited, so that none of them takes the part of the others.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Counts by key. Has entries only for counts above zero, so it is as bounded as what is counted.
#[derive(Debug)]
pub struct Counts<K>(HashMap<K, usize>);

impl<K> Default for Counts<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> Counts<K> {
    /// What `key` holds.
    pub fn of(&self, key: &K) -> usize {
        self.0.get(key).copied().unwrap_or(0)
    }

    /// The number of keys that hold something.
    pub fn active(&self) -> usize {
        self.0.len()
    }

    /// Counts `more` for `key`.
    pub fn add(&mut self, key: K, more: usize) {
        if more > 0 {
            *self.0.entry(key).or_insert(0) += more;
        }
    }

    /// Takes back what [`add`](Self::add) has counted.
    pub fn subtract(&mut self, key: &K, less: usize) {
        if let Some(count) = self.0.get_mut(key) {
            *count = count.saturating_sub(less);
            if *count == 0 {
                self.0.remove(key);
            }
        }
    }
}

/// The network of a caller: the first 24 bits of an IPv4 address, the first 64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network(IpAddr);

impl Network {
    /// The network of an address. An IPv4 address that is mapped into IPv6 is the IPv4 address.
    pub fn of(peer: IpAddr) -> Self {
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

/// Counts by address and by network.
#[derive(Debug, Default)]
pub struct PeerCounts {
    peers: Counts<IpAddr>,
    networks: Counts<Network>,
}

impl PeerCounts {
    /// What an address holds, and what its network does.
    pub fn of(&self, peer: IpAddr) -> (usize, usize) {
        (self.peers.of(&peer.to_canonical()), self.networks.of(&Network::of(peer)))
    }

    /// Counts `more` for an address and its network.
    pub fn add(&mut self, peer: IpAddr, more: usize) {
        self.peers.add(peer.to_canonical(), more);
        self.networks.add(Network::of(peer), more);
    }

    /// Takes back what [`add`](Self::add) has counted.
    pub fn subtract(&mut self, peer: IpAddr, less: usize) {
        self.peers.subtract(&peer.to_canonical(), less);
        self.networks.subtract(&Network::of(peer), less);
    }

    /// Whether nobody holds anything.
    pub fn is_empty(&self) -> bool {
        self.peers.active() == 0 && self.networks.active() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_is_the_first_part_of_an_address() {
        for (peer, network) in [
            ("192.0.2.77", "192.0.2.0/24"),
            ("::ffff:192.0.2.78", "192.0.2.0/24"),
            ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ] {
            assert_eq!(Network::of(address(peer)).to_string(), network);
        }
    }

    #[test]
    fn an_address_counts_for_its_network_and_nothing_is_kept_of_what_came_back() {
        let mut counts = PeerCounts::default();
        let peers = ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "192.0.3.1"].map(address);
        peers.iter().for_each(|peer| counts.add(*peer, 2));
        assert_eq!(counts.of(peers[0]), (4, 6));
        assert_eq!(counts.of(peers[3]), (2, 2));
        peers.iter().for_each(|peer| counts.subtract(*peer, 2));
        assert!(counts.is_empty());
    }
}
