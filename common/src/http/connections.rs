//! The open connections of a server, limited so that no peer can exclude the others (`connection_table`).
//!
//! All peers behind a trusted proxy share its connections. So these have no share, and the server counts each request on them
//! against the share of the peer that the proxy names.

use super::connection_table::Table;
use super::times::ConnectionTimes;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::metrics::{HTTP_CONNECTIONS, HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_REFUSED};
use crate::shares::Network;
use metrics::Gauge;
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

static REFUSED: LogLimit<3> = LogLimit::new();

/// The limits on the connections of a server.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of connections of all peers together.
    pub all: u32,
    /// Maximum number of connections of one address.
    pub per_peer: u32,
    /// Maximum number of connections of one network (IPv4 /24, IPv6 /64).
    pub per_network: u32,
    /// Places for connections that would be refused. When all are taken, the oldest of them is closed for a new one.
    pub spare: usize,
    /// How long a connection waits for its caller while at most half of the places are taken.
    pub times: ConnectionTimes,
}

crate::named! {
    /// Why a connection is refused, or a request of a peer behind a proxy. Names are values of the metric's label `reason`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ConnectionRefusal {
        /// No place is left, and no connection is idle or has a body that arrives slowly. Never for a request.
        All = "all",
        /// Its address has used up its share.
        Peer = "peer",
        /// Its network has used up its share.
        Network = "network",
    }
}

/// All open connections of a server; cheap to clone.
#[derive(Clone)]
pub(super) struct Connections(Arc<Shared>);

struct Shared {
    table: Mutex<Table>,
    idle: Gauge,
    active: Gauge,
}

/// An open connection; its place is free again when this is dropped.
pub struct Connection {
    id: u64,
    peer: IpAddr,
    closed: CancellationToken,
    connections: Connections,
}

/// A request that is under way on a connection, until it is dropped.
pub(super) struct RequestUnderWay<'c>(&'c Connection);

/// A body that is arriving slowly, until this is dropped. Its connection may be closed for a new one.
pub struct ArrivingBody<'c>(&'c Connection);

/// A request's part of the share of the peer that sent it through a proxy, until it is dropped.
pub struct PeerShare<'c> {
    connections: &'c Connections,
    peer: IpAddr,
}

impl Connections {
    /// `is_observed` has their number exported, of one server of a program.
    pub(super) fn new(limits: ConnectionLimits, is_observed: bool) -> Self {
        let gauge = |state: &'static str| match is_observed {
            true => metrics::gauge!(HTTP_CONNECTIONS, "state" => state),
            false => Gauge::noop(),
        };
        if is_observed {
            metrics::gauge!(HTTP_CONNECTIONS_MAX).set(limits.all);
        }
        let (idle, active) = (gauge("idle"), gauge("active"));
        let connections = Self(Arc::new(Shared { table: Mutex::new(Table::new(limits)), idle, active }));
        connections.update(|_| ());
        connections
    }

    /// Takes a place for a new connection of `peer`, which counts against no share if it `is_proxy`. `None` when it must be
    /// closed.
    pub(super) fn open(&self, peer: IpAddr, is_proxy: bool) -> Option<Connection> {
        let closed = CancellationToken::new();
        let counted = (!is_proxy).then_some(peer);
        match self.update(|table| table.open(counted, closed.clone(), Instant::now())) {
            Ok((id, evicted)) => {
                close(evicted);
                Some(Connection { id, peer, closed, connections: self.clone() })
            }
            Err(refusal) => {
                let (reason, network) = (refusal.as_str(), Network::of(peer));
                metrics::counter!(HTTP_CONNECTIONS_REFUSED, "reason" => reason).increment(1);
                // Its network: an address alone may be a person's.
                limited!(REFUSED[refusal as usize], warn, reason, %network, "connection refused: too many connections");
                None
            }
        }
    }

    /// Closes the connections that have been idle for too long by now.
    pub(super) fn close_idle(&self) {
        close(self.update(|table| table.close_idle(Instant::now())));
    }

    fn update<T>(&self, change: impl FnOnce(&mut Table) -> T) -> T {
        let mut table = self.table();
        let changed = change(&mut table);
        let (idle, active) = table.counts();
        self.0.idle.set(idle as f64);
        self.0.active.set(active as f64);
        changed
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock()
    }
}

fn close(evicted: impl IntoIterator<Item = CancellationToken>) {
    for connection in evicted {
        connection.cancel();
    }
}

impl Connection {
    /// The other end of the connection.
    pub const fn peer(&self) -> IpAddr {
        self.peer
    }

    /// Takes a part of the share of a peer that a proxy names. The error says which share is used up.
    pub fn take_share(&self, peer: IpAddr) -> Result<PeerShare<'_>, ConnectionRefusal> {
        self.connections.table().take_share(peer)?;
        Ok(PeerShare { connections: &self.connections, peer })
    }

    /// Notes that the body of its request is arriving slowly.
    pub fn begin_body(&self) -> ArrivingBody<'_> {
        self.connections.table().set_body(self.id, Some(Instant::now()));
        ArrivingBody(self)
    }

    /// Begins a request. `None` when the connection is being closed: nothing may begin on it.
    pub(super) fn begin_request(&self) -> Option<RequestUnderWay<'_>> {
        self.connections.update(|table| table.begin(self.id)).then_some(RequestUnderWay(self))
    }

    /// Completes when the connection must be closed.
    pub(super) async fn until_closed(&self) {
        self.closed.cancelled().await;
    }
}

impl Drop for RequestUnderWay<'_> {
    fn drop(&mut self) {
        self.0.connections.update(|table| table.end(self.0.id, Instant::now()));
    }
}

impl Drop for ArrivingBody<'_> {
    fn drop(&mut self) {
        self.0.connections.table().set_body(self.0.id, None);
    }
}

impl Drop for PeerShare<'_> {
    fn drop(&mut self) {
        self.connections.table().return_share(self.peer);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        drop(self.connections.update(|table| table.close(self.id)));
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("peer", &self.peer).finish_non_exhaustive()
    }
}
