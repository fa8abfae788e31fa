//! The bound on connections, so that no peer keeps the others out: a share for each peer and network, shorter timeouts
//! as the table fills, and at a full table the longest idle connection is closed for a new one.

mod peer;
mod table;

pub use table::{ConnectionLimits, ConnectionRefusal};

use common::log_limit::LogLimit;
use common::metrics::{
    HTTP_CONNECTIONS, HTTP_CONNECTIONS_CLOSED, HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_REFUSED,
};
use metrics::Gauge;
use peer::Network;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use table::{ConnectionId, ConnectionTable};
use tokio_util::sync::CancellationToken;

/// Which refused connections are logged.
static REFUSED: LogLimit<3> = LogLimit::new();

/// All connections that are open.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shared>);

struct Shared {
    table: Mutex<ConnectionTable<CancellationToken>>,
    idle: Gauge,
    active: Gauge,
}

/// A connection's place, which is given back when this is dropped.
pub(crate) struct ConnectionPlace {
    id: ConnectionId,
    connections: Connections,
    closed: CancellationToken,
}

/// A request that is under way on a connection.
pub(crate) struct RequestUnderWay<'p>(&'p ConnectionPlace);

impl Connections {
    /// None yet.
    pub(crate) fn new(limits: ConnectionLimits) -> Self {
        metrics::gauge!(HTTP_CONNECTIONS_MAX).set(limits.all);
        let gauge = |state: &'static str| metrics::gauge!(HTTP_CONNECTIONS, "state" => state);
        let table = Mutex::new(ConnectionTable::new(limits));
        let connections = Self(Arc::new(Shared { table, idle: gauge("idle"), active: gauge("active") }));
        connections.show(&connections.table());
        connections
    }

    /// Takes a new connection of `peer` in. `None` when it must be closed.
    pub(crate) fn open(&self, peer: IpAddr) -> Option<ConnectionPlace> {
        let closed = CancellationToken::new();
        let mut table = self.table();
        let opened = table.open(peer, closed.clone(), Instant::now());
        self.show(&table);
        drop(table);
        match opened {
            Ok((id, evicted)) => {
                close(evicted);
                Some(ConnectionPlace { id, connections: self.clone(), closed })
            }
            Err(refusal) => {
                refuse(refusal, peer);
                None
            }
        }
    }

    /// Closes what has been idle for longer than the fill of the table allows.
    pub(crate) fn close_idle(&self) {
        let mut table = self.table();
        let closed = table.close_idle(Instant::now());
        self.show(&table);
        drop(table);
        close(closed);
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable<CancellationToken>> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn show(&self, table: &ConnectionTable<CancellationToken>) {
        let (idle, active) = table.counts();
        self.0.idle.set(idle as f64);
        self.0.active.set(active as f64);
    }
}

fn close(evicted: impl IntoIterator<Item = CancellationToken>) {
    for connection in evicted {
        metrics::counter!(HTTP_CONNECTIONS_CLOSED).increment(1);
        connection.cancel();
    }
}

/// Counts a refused connection and logs its network: an address alone may be a person's.
fn refuse(refusal: ConnectionRefusal, peer: IpAddr) {
    let reason = refusal.as_str();
    metrics::counter!(HTTP_CONNECTIONS_REFUSED, "reason" => reason).increment(1);
    let network = Network::of(peer);
    if let Some(line) = REFUSED.admit(refusal as usize) {
        tracing::warn!(reason, %network, suppressed = line.suppressed, "connection refused: too many connections");
    } else {
        tracing::debug!(reason, %network, "connection refused: too many connections");
    }
}

impl ConnectionPlace {
    /// Ends when the connection must be closed to make room.
    pub(crate) async fn until_evicted(&self) {
        self.closed.cancelled().await;
    }

    /// Begins a request. `None` when the connection is being closed: nothing may begin on it.
    pub(crate) fn begin(&self) -> Option<RequestUnderWay<'_>> {
        let mut table = self.connections.table();
        let has_begun = table.begin(self.id);
        self.connections.show(&table);
        has_begun.then_some(RequestUnderWay(self))
    }
}

impl Drop for RequestUnderWay<'_> {
    fn drop(&mut self) {
        let Self(place) = self;
        let mut table = place.connections.table();
        table.end(place.id, Instant::now());
        place.connections.show(&table);
    }
}

impl Drop for ConnectionPlace {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        drop(table.close(self.id));
        self.connections.show(&table);
    }
}
