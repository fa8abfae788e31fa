//! The origin of a request: its peer, and the connection on which its body arrives.

use super::Connections;
use super::table::ConnectionId;
use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

/// The origin of a request.
#[derive(Clone)]
pub(crate) struct RequestOrigin {
    peer: IpAddr,
    id: ConnectionId,
    connections: Connections,
}

/// A body that is arriving slowly, until this is dropped. Its connection may be closed at a full table.
pub(crate) struct BodyArrivalGuard<'o>(&'o RequestOrigin);

impl RequestOrigin {
    pub(super) fn new(peer: IpAddr, id: ConnectionId, connections: Connections) -> Self {
        Self { peer, id, connections }
    }

    /// The caller's address: the other end of the connection, or the address that a trusted proxy names.
    pub(crate) fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Notes that the request's body is arriving slowly.
    pub(crate) fn begin_body(&self) -> BodyArrivalGuard<'_> {
        self.connections.table().begin_body(self.id, Instant::now());
        BodyArrivalGuard(self)
    }
}

impl Drop for BodyArrivalGuard<'_> {
    fn drop(&mut self) {
        self.0.connections.table().end_body(self.0.id);
    }
}

impl fmt::Debug for RequestOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOrigin").field("peer", &self.peer).finish_non_exhaustive()
    }
}
