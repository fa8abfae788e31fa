//! Where a request came from: its peer, and the connection that its body arrives on.

use super::Connections;
use super::table::ConnectionId;
use std::fmt;
use std::net::IpAddr;
use std::time::Instant;

/// Where a request came from.
#[derive(Clone)]
pub struct RequestOrigin {
    peer: IpAddr,
    connection: Option<(ConnectionId, Connections)>,
}

/// A body that is arriving slowly, until this is dropped. Its connection may be closed at a full table.
pub(crate) struct ArrivingBody<'o>(&'o RequestOrigin);

impl RequestOrigin {
    /// A request of `peer` on a connection.
    pub(super) fn new(peer: IpAddr, id: ConnectionId, connections: Connections) -> Self {
        Self { peer, connection: Some((id, connections)) }
    }

    /// A request that came on no connection.
    #[cfg(test)]
    pub(crate) fn of(peer: IpAddr) -> Self {
        Self { peer, connection: None }
    }

    /// Who sent it: the other end of its connection, or whom a trusted proxy names.
    pub fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Notes that the request's body has to be waited for.
    pub(crate) fn begin_body(&self) -> ArrivingBody<'_> {
        if let Some((id, connections)) = &self.connection {
            connections.table().begin_body(*id, Instant::now());
        }
        ArrivingBody(self)
    }
}

impl Drop for ArrivingBody<'_> {
    fn drop(&mut self) {
        if let Some((id, connections)) = &self.0.connection {
            connections.table().end_body(*id);
        }
    }
}

impl fmt::Debug for RequestOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOrigin").field("peer", &self.peer).finish_non_exhaustive()
    }
}
