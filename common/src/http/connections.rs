//! The open connections of a server, limited so that no peer can exclude the others: each peer and network has a share, idle
//! times get shorter as the places run out, and when none is left, the longest idle connection is closed for a new one, or the
//! one whose body has been arriving for longest.
//!
//! All peers behind a trusted proxy share its connections. So these have no share, and the server counts each request on them
//! against the share of the peer that the proxy names.

use super::times::ConnectionTimes;
use crate::limited;
use crate::log_limit::LogLimit;
use crate::metrics::{
    HTTP_CONNECTIONS, HTTP_CONNECTIONS_CLOSED, HTTP_CONNECTIONS_MAX, HTTP_CONNECTIONS_REFUSED,
};
use crate::shares::{Network, PeerCounts};
use metrics::Gauge;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A used connection is not closed for a new one for that long after a response, however few places are left: its caller may
/// be sending the next request, and could not know whether that was processed. The same holds for one whose body is arriving.
const GRACE: Duration = Duration::from_secs(1);
/// When no place is left, the idle time is divided by this.
const SHORTEST_IDLE_DIVISOR: u32 = 10;

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
        let table = Table {
            limits,
            last: 0,
            idle: 0,
            entries: HashMap::new(),
            spares: BTreeSet::new(),
            shares: PeerCounts::default(),
        };
        let (idle, active) = (gauge("idle"), gauge("active"));
        let connections = Self(Arc::new(Shared { table: Mutex::new(table), idle, active }));
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
        self.0.idle.set(table.idle as f64);
        self.0.active.set((table.entries.len() - table.idle) as f64);
        changed
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn close(evicted: impl IntoIterator<Item = CancellationToken>) {
    for connection in evicted {
        metrics::counter!(HTTP_CONNECTIONS_CLOSED).increment(1);
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
        self.connections.table().shares.subtract(self.peer, 1);
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

/// Pure: time is an argument. What looks for the longest idle connection reads all of them, which happens only when no place is
/// left, and twice a second.
struct Table {
    limits: ConnectionLimits,
    /// The last id. Of two connections the older one has the smaller id.
    last: u64,
    idle: usize,
    entries: HashMap<u64, Entry>,
    /// Those that have a spare place.
    spares: BTreeSet<u64>,
    shares: PeerCounts,
}

struct Entry {
    /// Whose share it counts against; `None` for a trusted proxy, whose connections carry requests of many peers.
    peer: Option<IpAddr>,
    /// Since when it is idle. `None` with a request under way.
    idle: Option<Instant>,
    /// Since when the body of its request is arriving.
    body: Option<Instant>,
    /// Whether it has had a request.
    is_used: bool,
    closed: CancellationToken,
}

impl Table {
    /// Adds a connection. When no place is left, it takes that of another one, and returns its token, too.
    fn open(
        &mut self,
        peer: Option<IpAddr>,
        closed: CancellationToken,
        now: Instant,
    ) -> Result<(u64, Option<CancellationToken>), ConnectionRefusal> {
        let place = self.take_place(peer, now);
        let (peer, evicted) = match place {
            Ok(evicted) => (peer, evicted),
            Err(refusal) if self.limits.spare == 0 => return Err(refusal),
            Err(_) if self.spares.len() < self.limits.spare => (None, None),
            Err(_) => (None, self.spares.first().copied()),
        };
        let evicted = evicted.and_then(|id| self.close(id));
        (self.last, self.idle) = (self.last + 1, self.idle + 1);
        if place.is_err() {
            self.spares.insert(self.last);
        }
        self.entries.insert(self.last, Entry { peer, idle: Some(now), body: None, is_used: false, closed });
        Ok((self.last, evicted))
    }

    /// Takes a part of the share of `peer`, and a place that is no spare one: returns the connection that must be closed for it.
    fn take_place(&mut self, peer: Option<IpAddr>, now: Instant) -> Result<Option<u64>, ConnectionRefusal> {
        let evicted = match self.entries.len() - self.spares.len() < self.limits.all as usize {
            true => None,
            false => Some(self.eviction_candidate(now).ok_or(ConnectionRefusal::All)?),
        };
        if let Some(peer) = peer {
            self.take_share(peer)?;
        }
        Ok(evicted)
    }

    /// Counts a connection, or a request that a proxy passes on, against the share of `peer`.
    fn take_share(&mut self, peer: IpAddr) -> Result<(), ConnectionRefusal> {
        let (own, of_network) = self.shares.of(peer);
        if own >= self.limits.per_peer as usize {
            return Err(ConnectionRefusal::Peer);
        }
        if of_network >= self.limits.per_network as usize {
            return Err(ConnectionRefusal::Network);
        }
        self.shares.add(peer, 1);
        Ok(())
    }

    /// False when the connection was removed: the request must not begin.
    fn begin(&mut self, id: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        self.idle -= usize::from(entry.idle.take().is_some());
        entry.is_used = true;
        true
    }

    fn end(&mut self, id: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.idle.replace(now).is_none()
        {
            self.idle += 1;
        }
    }

    fn set_body(&mut self, id: u64, since: Option<Instant>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.body = since;
        }
    }

    /// Removes a connection and returns its token, unless it was removed before.
    fn close(&mut self, id: u64) -> Option<CancellationToken> {
        let entry = self.entries.remove(&id)?;
        self.spares.remove(&id);
        self.idle -= usize::from(entry.idle.is_some());
        if let Some(peer) = entry.peer {
            self.shares.subtract(peer, 1);
        }
        Some(entry.closed)
    }

    /// Removes the connections that have been idle for longer than the current idle time, the longest idle first.
    fn close_idle(&mut self, now: Instant) -> Vec<CancellationToken> {
        let mut closed = Vec::new();
        while let Some((since, id)) = self.longest(|entry| entry.idle)
            && now.saturating_duration_since(since) > self.idle_time()
        {
            closed.extend(self.close(id));
        }
        closed
    }

    /// How long a connection may be idle now: the whole time while at most half of the places are taken, a tenth of it when
    /// none is left, and in between the less the fewer there are.
    fn idle_time(&self) -> Duration {
        let (whole, all) = (self.limits.times.idle, f64::from(self.limits.all));
        let free = (all - self.entries.len() as f64) / (all / 2.0);
        let shortest = whole / SHORTEST_IDLE_DIVISOR;
        shortest + (whole - shortest).mul_f64(free.clamp(0.0, 1.0))
    }

    /// The connection to close for a new one: the longest idle one or the one whose body has been arriving for longest, when
    /// that is long enough, and otherwise one that has had no request.
    fn eviction_candidate(&self, now: Instant) -> Option<u64> {
        let is_long = |(since, _): &(Instant, u64)| now.saturating_duration_since(*since) >= GRACE;
        let idle = self.longest(|entry| entry.idle).filter(is_long);
        let body = || self.longest(|entry| entry.body).filter(is_long);
        let unused = || self.longest(|entry| entry.idle.filter(|_| !entry.is_used));
        idle.or_else(body).or_else(unused).map(|(_, id)| id)
    }

    fn longest(&self, since: impl Fn(&Entry) -> Option<Instant>) -> Option<(Instant, u64)> {
        let entries = self.entries.iter().filter(|(id, _)| !self.spares.contains(id));
        entries.filter_map(|(id, entry)| Some((since(entry)?, *id))).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: ConnectionTimes =
        ConnectionTimes { head: Duration::from_secs(10), idle: Duration::from_secs(30) };
    const LIMITS: ConnectionLimits =
        ConnectionLimits { all: 4, per_peer: 3, per_network: 4, spare: 0, times: TIMES };

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, last, last])
    }

    /// Connections of these peers, opened a second apart; with ids from 1.
    fn opened(peers: &[u8]) -> (Connections, Vec<CancellationToken>, Instant) {
        let (connections, mut tokens, mut now) =
            (Connections::new(LIMITS, false), Vec::new(), Instant::now());
        for last in peers {
            let token = CancellationToken::new();
            connections.table().open(Some(peer(*last)), token.clone(), now).unwrap();
            tokens.push(token);
            now += Duration::from_secs(1);
        }
        (connections, tokens, now)
    }

    /// Opens a connection, and says which one was closed for it, by its place among `tokens`.
    fn open(
        table: &mut Table,
        last: u8,
        now: Instant,
        tokens: &[CancellationToken],
    ) -> Result<Option<usize>, ConnectionRefusal> {
        let (_, evicted) = table.open(Some(peer(last)), CancellationToken::new(), now)?;
        close(evicted);
        Ok(tokens.iter().position(CancellationToken::is_cancelled))
    }

    fn is_empty(table: &mut Table) -> bool {
        (1..=table.last).for_each(|id| drop(table.close(id)));
        table.entries.is_empty() && table.idle == 0 && table.shares.is_empty()
    }

    #[test]
    fn one_peer_and_one_network_have_their_share() {
        let (connections, tokens, now) = opened(&[1, 1, 1]);
        let mut table = connections.table();
        assert_eq!(open(&mut table, 1, now, &tokens), Err(ConnectionRefusal::Peer));
        assert_eq!(table.take_share([192, 0, 1, 2].into()), Ok(()));
        assert_eq!(table.take_share([192, 0, 1, 3].into()), Err(ConnectionRefusal::Network));
        assert_eq!(open(&mut table, 2, now, &tokens), Ok(None));
        table.shares.subtract([192, 0, 1, 2].into(), 1);
        assert!(is_empty(&mut table));
    }

    #[test]
    fn a_connection_that_would_be_refused_takes_a_spare_place_and_then_the_oldest_of_these() {
        let (connections, tokens, now) = opened(&[1, 1, 1]);
        let mut table = connections.table();
        table.limits.spare = 2;
        let spare = [(); 2].map(|()| CancellationToken::new());
        for token in &spare {
            assert!(
                table.open(Some(peer(1)), token.clone(), now).is_ok_and(|(_, evicted)| evicted.is_none())
            );
        }
        assert_eq!(open(&mut table, 1, now, &spare), Ok(Some(0)));
        assert_eq!(open(&mut table, 2, now, &tokens), Ok(None), "a spare place takes none of the others");
        assert!(is_empty(&mut table) && table.spares.is_empty());
    }

    #[test]
    fn without_a_place_the_longest_idle_connection_is_closed_for_a_new_one() {
        let (connections, tokens, now) = opened(&[1, 2, 3, 4]);
        let mut table = connections.table();
        assert!(table.begin(1));
        assert_eq!(open(&mut table, 5, now, &tokens), Ok(Some(1)));
        assert!(!table.begin(2), "a request on a closed connection must not begin");
        assert!(table.close(2).is_none());
        assert_eq!((table.idle, table.entries.len()), (3, 4));
        assert!(is_empty(&mut table));
    }

    #[test]
    fn a_connection_that_was_just_used_and_one_with_a_request_are_kept() {
        let (connections, tokens, now) = opened(&[1, 2, 3, 4]);
        let mut table = connections.table();
        assert!((1..=4).all(|id| table.begin(id)));
        (1..=2).for_each(|id| table.end(id, now));
        assert_eq!(open(&mut table, 5, now, &tokens), Err(ConnectionRefusal::All));
        let later = now + GRACE;
        assert_eq!(open(&mut table, 5, later, &tokens), Ok(Some(0)));
        // The unused one goes before one that has just been used, although it is idle for a shorter time.
        table.end(3, later);
        table.close(2);
        open(&mut table, 6, later, &tokens).unwrap();
        open(&mut table, 7, later, &tokens).unwrap();
        assert!(!table.entries.contains_key(&5) && table.entries.contains_key(&3));
        assert!(is_empty(&mut table));
    }

    #[test]
    fn the_fewer_places_are_left_the_shorter_a_connection_may_be_idle() {
        let (connections, tokens, now) = opened(&[1, 2]);
        let mut table = connections.table();
        assert_eq!(table.idle_time(), TIMES.idle);
        assert!(table.close_idle(now + TIMES.idle - Duration::from_secs(2)).is_empty());
        open(&mut table, 3, now, &tokens).unwrap();
        assert_eq!(table.idle_time(), Duration::from_millis(16_500));
        open(&mut table, 4, now, &tokens).unwrap();
        assert_eq!(table.idle_time(), TIMES.idle / SHORTEST_IDLE_DIVISOR);
        // Two of four were idle for more than 3 s; without the first there may be 16.5 s.
        close(table.close_idle(now + Duration::from_secs(2)));
        assert_eq!(tokens.iter().position(CancellationToken::is_cancelled), Some(0));
        assert_eq!(table.entries.len(), 3);
    }

    #[test]
    fn without_an_idle_connection_the_one_whose_body_arrives_for_longest_is_closed() {
        let (connections, tokens, now) = opened(&[1, 2, 3, 4]);
        let mut table = connections.table();
        assert!((1..=4).all(|id| table.begin(id)));
        table.set_body(2, Some(now));
        table.set_body(1, Some(now + GRACE));
        let refused = open(&mut table, 5, now + GRACE / 2, &tokens);
        assert_eq!(refused, Err(ConnectionRefusal::All), "no body has been arriving for the grace time");
        assert_eq!(open(&mut table, 5, now + GRACE, &tokens), Ok(Some(1)));
        assert!(table.begin(5));
        table.set_body(1, None);
        let refused = open(&mut table, 6, now + 3 * GRACE, &tokens);
        assert_eq!(refused, Err(ConnectionRefusal::All), "a complete body is no longer arriving");
        assert!(is_empty(&mut table));
    }

    #[test]
    fn requests_through_a_proxy_count_like_connections_of_the_peer_and_the_proxys_own_do_not() {
        let (connections, tokens, now) = opened(&[1, 1]);
        let proxy = connections.open([10, 0, 0, 1].into(), true).unwrap();
        let share = proxy.take_share(peer(1)).unwrap();
        assert_eq!(open(&mut connections.table(), 1, now, &tokens), Err(ConnectionRefusal::Peer));
        assert_eq!(proxy.take_share(peer(1)).err(), Some(ConnectionRefusal::Peer));
        drop(share);
        assert!(proxy.take_share(peer(1)).is_ok());
        drop(proxy);
        assert!(is_empty(&mut connections.table()));
    }
}
