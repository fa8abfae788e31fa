//! The bounds on connections, and what is refused beyond them.

use super::shares::UsedUpShare;
use std::time::Duration;

/// Most connections at once, and how long one may idle.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Altogether.
    pub all: u32,
    /// Of one address.
    pub per_peer: u32,
    /// Of one network.
    pub per_network: u32,
    /// How long a head may take, and a connection may idle, while the table is at most half full.
    pub header_timeout: Duration,
}

/// Why a connection is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionRefusal {
    /// `CONNECT_MAX_CONNECTIONS` connections are open, none of which is idle or has a body that arrives slowly.
    All,
    /// Its address has `CONNECT_MAX_CONNECTIONS_PER_PEER` connections.
    Peer,
    /// Its network has `CONNECT_MAX_CONNECTIONS_PER_NETWORK` connections.
    Network,
}

impl ConnectionRefusal {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::All, Self::Peer, Self::Network];

    /// The metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Peer => "peer",
            Self::Network => "network",
        }
    }
}

impl From<UsedUpShare> for ConnectionRefusal {
    fn from(share: UsedUpShare) -> Self {
        match share {
            UsedUpShare::Peer => Self::Peer,
            UsedUpShare::Network => Self::Network,
        }
    }
}
