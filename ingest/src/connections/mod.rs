//! Limits connections, so that no peer can exclude the others: each peer and network has a share, timeouts get shorter as the
//! table fills, and a full table closes the longest idle connection for a new one, or the one whose body has been arriving
//! for longest.
//!
//! All peers behind a trusted proxy share its connections. So these connections have no share, and each request that arrives
//! on them counts against the share of the peer that the proxy names.

mod forwarded;
pub(crate) mod framing;
pub(crate) mod head_timer;
mod limits;
pub(crate) mod linger;
mod origin;
mod proxies;
pub(crate) mod socket;
mod table;

pub use limits::ConnectionRefusal;
pub(crate) use limits::{ConnectionLimits, ExhaustedShare};
pub(crate) use origin::RequestOrigin;
pub(crate) use proxies::TrustedProxies;

use crate::overload::OverloadReason;
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{
    HTTP_CONNECTIONS, HTTP_CONNECTIONS_CLOSED, HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_REFUSED,
};
use common::shares::Network;
use hyper::HeaderMap;
use metrics::Gauge;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use table::{ConnectionId, ConnectionTable};
use tokio_util::sync::CancellationToken;

/// Limits the log lines of refused connections.
static REFUSED: LogLimit<3> = LogLimit::new();

/// Limits the log lines of refused requests of peers behind a proxy.
static REFUSED_REQUESTS: LogLimit<2> = LogLimit::new();

/// All open connections; cheap to clone.
#[derive(Clone)]
pub(crate) struct Connections(Arc<Shared>);

struct Shared {
    table: Mutex<ConnectionTable<CancellationToken>>,
    proxies: TrustedProxies,
    idle: Gauge,
    active: Gauge,
}

/// An open connection in the table; removed from it when dropped.
pub(crate) struct ConnectionSlot {
    id: ConnectionId,
    peer: IpAddr,
    /// Whether the peer is a trusted proxy.
    is_proxy: bool,
    connections: Connections,
    closed: CancellationToken,
}

/// A request that is under way on a connection.
pub(crate) struct RequestUnderWay<'p>(&'p ConnectionSlot);

/// A request's part of the share of the peer that sent it through a proxy.
pub(crate) struct PeerShare<'p> {
    connections: &'p Connections,
    peer: IpAddr,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits, proxies: TrustedProxies) -> Self {
        metrics::gauge!(HTTP_CONNECTIONS_MAX).set(limits.all);
        let gauge = |state: &'static str| metrics::gauge!(HTTP_CONNECTIONS, "state" => state);
        let table = Mutex::new(ConnectionTable::new(limits));
        let shared = Shared { table, proxies, idle: gauge("idle"), active: gauge("active") };
        let connections = Self(Arc::new(shared));
        connections.update_gauges(&connections.table());
        connections
    }

    /// Registers a new connection of `peer`. `None` when it must be closed.
    pub(crate) fn open(&self, peer: IpAddr) -> Option<ConnectionSlot> {
        let closed = CancellationToken::new();
        let is_proxy = self.0.proxies.contains(peer);
        let mut table = self.table();
        let counted = (!is_proxy).then_some(peer);
        let opened = table.open(counted, closed.clone(), Instant::now());
        self.update_gauges(&table);
        drop(table);
        match opened {
            Ok((id, evicted)) => {
                close(evicted);
                Some(ConnectionSlot { id, peer, is_proxy, connections: self.clone(), closed })
            }
            Err(refusal) => {
                refuse(refusal, peer);
                None
            }
        }
    }

    /// Closes the connections that have been idle for longer than the current idle timeout.
    pub(crate) fn close_idle(&self) {
        let mut table = self.table();
        let closed = table.close_idle(Instant::now());
        self.update_gauges(&table);
        drop(table);
        close(closed);
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable<CancellationToken>> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update_gauges(&self, table: &ConnectionTable<CancellationToken>) {
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
    limited!(REFUSED[refusal as usize], warn, reason, %network, "connection refused: too many connections");
}

/// Counts a refused request and logs its peer's network.
fn refuse_request(share: ExhaustedShare, peer: IpAddr) -> OverloadReason {
    let (bound, network) = (OverloadReason::from(share), Network::of(peer));
    let reason = bound.as_str();
    limited!(REFUSED_REQUESTS[share as usize], warn, reason, %network, "request refused: too many requests of its peer");
    bound
}

impl ConnectionSlot {
    /// Where a request with these headers came from.
    pub(crate) fn origin(&self, headers: &HeaderMap) -> RequestOrigin {
        let proxies = &self.connections.0.proxies;
        let peer = if self.is_proxy { proxies.peer_behind(self.peer, headers) } else { self.peer };
        RequestOrigin::new(peer, self.id, self.connections.clone())
    }

    /// Takes a part of the share of the peer that has sent a request, when a proxy passes it on. The error says which
    /// share is used up.
    pub(crate) fn take_share(&self, origin: &RequestOrigin) -> Result<Option<PeerShare<'_>>, OverloadReason> {
        if !self.is_proxy {
            return Ok(None);
        }
        let peer = origin.peer();
        let taken = self.connections.table().take_share(peer);
        taken.map_err(|share| refuse_request(share, peer))?;
        Ok(Some(PeerShare { connections: &self.connections, peer }))
    }

    /// Completes when the connection is evicted and must be closed.
    pub(crate) async fn until_evicted(&self) {
        self.closed.cancelled().await;
    }

    /// Begins a request. `None` when the connection is being closed: nothing may begin on it.
    pub(crate) fn begin(&self) -> Option<RequestUnderWay<'_>> {
        let mut table = self.connections.table();
        let has_begun = table.begin(self.id);
        self.connections.update_gauges(&table);
        has_begun.then_some(RequestUnderWay(self))
    }
}

impl Drop for RequestUnderWay<'_> {
    fn drop(&mut self) {
        let Self(slot) = self;
        let mut table = slot.connections.table();
        table.end(slot.id, Instant::now());
        slot.connections.update_gauges(&table);
    }
}

impl Drop for PeerShare<'_> {
    fn drop(&mut self) {
        self.connections.table().release_share(self.peer);
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        drop(table.close(self.id));
        self.connections.update_gauges(&table);
    }
}
