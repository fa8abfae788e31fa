//! The limits on connections, and the reasons for refusing one.

use crate::overload::OverloadReason;
use common::shares::PeerCounts;
use std::net::IpAddr;
use std::time::Duration;
use strum::{IntoStaticStr, VariantArray};

/// The most open connections, and how long one may be idle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// The most connections of all peers together.
    pub(crate) all: u32,
    /// The most connections of one address.
    pub(crate) per_peer: u32,
    /// The most connections of one network (IPv4 /24, IPv6 /64).
    pub(crate) per_network: u32,
    /// How long a head may take to arrive, and a connection may be idle, while the table is at most half full.
    pub(crate) header_timeout: Duration,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum ConnectionRefusal {
    /// `CONNECT_MAX_CONNECTIONS` connections are open, none of which is idle or has a body that arrives slowly.
    All,
    /// Its address has `CONNECT_MAX_CONNECTIONS_PER_PEER` connections.
    Peer,
    /// Its network has `CONNECT_MAX_CONNECTIONS_PER_NETWORK` connections.
    Network,
}

impl ConnectionRefusal {
    /// Each reason once.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The value of the metric's label `reason`.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Which share is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExhaustedShare {
    /// The share of the address.
    Peer,
    /// The share of its network.
    Network,
}

impl ConnectionLimits {
    /// Counts one more connection or request of `peer`, unless its share or that of its network is exhausted.
    pub(super) fn take_share(&self, shares: &mut PeerCounts, peer: IpAddr) -> Result<(), ExhaustedShare> {
        let (own, of_network) = shares.of(peer);
        if own >= self.per_peer as usize {
            return Err(ExhaustedShare::Peer);
        }
        if of_network >= self.per_network as usize {
            return Err(ExhaustedShare::Network);
        }
        shares.add(peer, 1);
        Ok(())
    }
}

impl From<ExhaustedShare> for OverloadReason {
    fn from(share: ExhaustedShare) -> Self {
        match share {
            ExhaustedShare::Peer => Self::Peer,
            ExhaustedShare::Network => Self::Network,
        }
    }
}

impl From<ExhaustedShare> for ConnectionRefusal {
    fn from(share: ExhaustedShare) -> Self {
        match share {
            ExhaustedShare::Peer => Self::Peer,
            ExhaustedShare::Network => Self::Network,
        }
    }
}
