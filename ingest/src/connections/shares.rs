//! The shares of peers and networks: their own connections, and their requests through trusted proxies.

use super::peer::Network;
use crate::overload::OverloadReason;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;

/// Which share is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExhaustedShare {
    /// The share of the address.
    Peer,
    /// The share of its network.
    Network,
}

impl From<ExhaustedShare> for OverloadReason {
    fn from(share: ExhaustedShare) -> Self {
        match share {
            ExhaustedShare::Peer => Self::Peer,
            ExhaustedShare::Network => Self::Network,
        }
    }
}

/// Counts by address and by network. Has entries only for non-zero counts, so it is as bounded as connections are.
#[derive(Debug)]
pub(super) struct PeerShares {
    per_peer: u32,
    per_network: u32,
    peers: HashMap<IpAddr, u32>,
    networks: HashMap<Network, u32>,
}

impl PeerShares {
    /// At most `per_peer` for an address and `per_network` for a network.
    pub(super) fn new(per_peer: u32, per_network: u32) -> Self {
        Self { per_peer, per_network, peers: HashMap::new(), networks: HashMap::new() }
    }

    /// Counts one more connection or request of `peer`, unless its share or that of its network is exhausted.
    pub(super) fn take(&mut self, peer: IpAddr) -> Result<(), ExhaustedShare> {
        let (peer, network) = (peer.to_canonical(), Network::of(peer));
        if self.peers.get(&peer).is_some_and(|count| *count >= self.per_peer) {
            return Err(ExhaustedShare::Peer);
        }
        if self.networks.get(&network).is_some_and(|count| *count >= self.per_network) {
            return Err(ExhaustedShare::Network);
        }
        *self.peers.entry(peer).or_insert(0) += 1;
        *self.networks.entry(network).or_insert(0) += 1;
        Ok(())
    }

    /// Counts one less for `peer`, for which [`take`](Self::take) has counted one.
    pub(super) fn release(&mut self, peer: IpAddr) {
        decrement(&mut self.peers, &peer.to_canonical());
        decrement(&mut self.networks, &Network::of(peer));
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.peers.is_empty() && self.networks.is_empty()
    }
}

fn decrement<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_and_a_network_have_their_share_and_get_it_back() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut shares = PeerShares::new(2, 3);
        assert_eq!(shares.take(address("192.0.2.1")), Ok(()));
        assert_eq!(shares.take(address("::ffff:192.0.2.1")), Ok(()));
        assert_eq!(shares.take(address("192.0.2.1")), Err(ExhaustedShare::Peer));
        assert_eq!(shares.take(address("192.0.2.2")), Ok(()));
        assert_eq!(shares.take(address("192.0.2.3")), Err(ExhaustedShare::Network));
        assert_eq!(shares.take(address("192.0.3.1")), Ok(()));
        for peer in ["192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2", "192.0.3.1"] {
            shares.release(address(peer));
        }
        assert!(shares.is_empty());
    }
}
