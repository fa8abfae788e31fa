//! The table of open connections: their peers, and which of them have been idle longest. Pure: time is an argument.

use super::limits::{ConnectionLimits, ConnectionRefusal, ExhaustedShare};
use common::shares::PeerCounts;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A used connection is not evicted for that long after a response, however full the table is: its caller may be sending
/// the next request, and could not know whether that was processed. The same holds for one whose body is arriving.
const EVICTION_GRACE: Duration = Duration::from_secs(1);

/// How much longer than `header_timeout` a connection may idle while the table is at most half full. The HTTP library
/// closes those that send no request in that time; the others are connections whose response is not read.
const UNREAD_GRACE: Duration = Duration::from_secs(1);

/// At a full table the timeout is `header_timeout` divided by this.
const MIN_TIMEOUT_DIVISOR: u32 = 10;

/// Ids increase: of two connections the older one has the smaller id.
pub(super) type ConnectionId = u64;

#[derive(Debug)]
struct TableEntry<C> {
    /// Whose share it counts against; `None` for a trusted proxy, whose connections carry requests of many peers.
    peer: Option<IpAddr>,
    /// Since when it is idle: its key in `used` or `unused`. `None` with a request under way.
    idle: Option<(Instant, ConnectionId)>,
    /// Since when the body of its request is arriving: its key in `bodies`.
    body: Option<(Instant, ConnectionId)>,
    /// Whether it has had a request.
    is_used: bool,
    closer: C,
}

/// All open connections: at most `limits.all`. Every operation takes logarithmic time.
#[derive(Debug)]
pub(super) struct ConnectionTable<C> {
    limits: ConnectionLimits,
    last: ConnectionId,
    entries: HashMap<ConnectionId, TableEntry<C>>,
    /// Idle connections, longest idle first: those that have had a request, and those that have not.
    used: BTreeSet<(Instant, ConnectionId)>,
    unused: BTreeSet<(Instant, ConnectionId)>,
    /// Connections on which a body is arriving, by the time at which it began.
    bodies: BTreeSet<(Instant, ConnectionId)>,
    shares: PeerCounts,
}

impl<C> ConnectionTable<C> {
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            last: 0,
            entries: HashMap::new(),
            used: BTreeSet::new(),
            unused: BTreeSet::new(),
            bodies: BTreeSet::new(),
            shares: PeerCounts::default(),
        }
    }

    /// Adds a connection, which counts against the share of `peer`. A full table evicts the longest idle connection, or the
    /// one whose body has been arriving for longest, and returns its closer, too.
    pub(super) fn open(
        &mut self,
        peer: Option<IpAddr>,
        closer: C,
        now: Instant,
    ) -> Result<(ConnectionId, Option<C>), ConnectionRefusal> {
        if let Some(peer) = peer {
            self.limits.take_share(&mut self.shares, peer)?;
        }
        let mut evicted = None;
        if self.entries.len() >= self.limits.all as usize {
            let Some(longest) = self.eviction_candidate(now) else {
                self.release_share(peer);
                return Err(ConnectionRefusal::All);
            };
            evicted = self.close(longest);
        }
        self.last += 1;
        let id = self.last;
        self.unused.insert((now, id));
        self.entries
            .insert(id, TableEntry { peer, idle: Some((now, id)), body: None, is_used: false, closer });
        Ok((id, evicted))
    }

    /// Counts a request that a trusted proxy passes on for `peer` against the peer's share, as a connection of its own.
    pub(super) fn take_share(&mut self, peer: IpAddr) -> Result<(), ExhaustedShare> {
        self.limits.take_share(&mut self.shares, peer)
    }

    /// Ends the count of a connection or request against the share of `peer`.
    pub(super) fn release_share(&mut self, peer: impl Into<Option<IpAddr>>) {
        if let Some(peer) = peer.into() {
            self.shares.subtract(peer, 1);
        }
    }

    /// Notes that a request begins. False when the connection was removed: the request must not begin.
    pub(super) fn begin(&mut self, id: ConnectionId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        if let Some(key) = entry.idle.take() {
            let idle = if entry.is_used { &mut self.used } else { &mut self.unused };
            idle.remove(&key);
        }
        entry.is_used = true;
        true
    }

    /// Notes that the body of the connection's request is arriving slowly.
    pub(super) fn begin_body(&mut self, id: ConnectionId, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let Some(before) = entry.body.replace((now, id)) {
            self.bodies.remove(&before);
        }
        self.bodies.insert((now, id));
    }

    /// Notes that the body is complete, or no longer awaited.
    pub(super) fn end_body(&mut self, id: ConnectionId) {
        if let Some(key) = self.entries.get_mut(&id).and_then(|entry| entry.body.take()) {
            self.bodies.remove(&key);
        }
    }

    /// Notes that the request has its response.
    pub(super) fn end(&mut self, id: ConnectionId, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.idle.is_none() {
            entry.idle = Some((now, id));
            self.used.insert((now, id));
        }
    }

    /// Removes a connection and returns its closer, unless it was removed before.
    pub(super) fn close(&mut self, id: ConnectionId) -> Option<C> {
        let entry = self.entries.remove(&id)?;
        if let Some(key) = entry.idle {
            let idle = if entry.is_used { &mut self.used } else { &mut self.unused };
            idle.remove(&key);
        }
        if let Some(key) = entry.body {
            self.bodies.remove(&key);
        }
        self.release_share(entry.peer);
        Some(entry.closer)
    }

    /// Removes all connections that have been idle for longer than the current idle timeout.
    pub(super) fn close_idle(&mut self, now: Instant) -> Vec<C> {
        let mut closed = Vec::new();
        while let Some((since, id)) = self.first_idle()
            && now.saturating_duration_since(since) > self.idle_timeout()
        {
            closed.extend(self.close(id));
        }
        closed
    }

    /// Idle connections, and those with a request under way.
    pub(super) fn counts(&self) -> (usize, usize) {
        let idle = self.used.len() + self.unused.len();
        (idle, self.entries.len() - idle)
    }

    /// How long a connection may idle now: the whole time while at most half of the places are taken, a tenth of it when
    /// all are, and in between the less the fewer are free.
    fn idle_timeout(&self) -> Duration {
        let (whole, all) = (self.limits.header_timeout, self.limits.all);
        if self.entries.len() <= all as usize / 2 {
            return whole + UNREAD_GRACE;
        }
        let free = all.saturating_sub(u32::try_from(self.entries.len()).unwrap_or(u32::MAX));
        let shortest = whole / MIN_TIMEOUT_DIVISOR;
        let share = f64::from(free) / (f64::from(all) / 2.0);
        shortest + (whole - shortest).mul_f64(share.min(1.0))
    }

    fn first_idle(&self) -> Option<(Instant, ConnectionId)> {
        let first = |idle: &BTreeSet<_>| idle.first().copied();
        match (first(&self.used), first(&self.unused)) {
            (Some(used), Some(unused)) => Some(used.min(unused)),
            (used, unused) => used.or(unused),
        }
    }

    /// The connection to evict for a new one: the longest idle one or the one whose body has been arriving for longest, when
    /// that is long enough, and otherwise one that has had no request.
    fn eviction_candidate(&self, now: Instant) -> Option<ConnectionId> {
        let is_long =
            |(since, _): &(Instant, ConnectionId)| now.saturating_duration_since(*since) >= EVICTION_GRACE;
        let first = |connections: &BTreeSet<_>| connections.first().copied();
        let idle = self.first_idle().filter(is_long);
        let body = || first(&self.bodies).filter(is_long);
        idle.or_else(body).or_else(|| first(&self.unused)).map(|(_, id)| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits =
        ConnectionLimits { all: 4, per_peer: 3, per_network: 4, header_timeout: Duration::from_secs(30) };

    fn peer(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, last, last]))
    }

    /// A table with a connection of each of these peers, opened a second apart.
    fn table(peers: &[u8]) -> (ConnectionTable<u8>, Instant) {
        let (mut table, mut now) = (ConnectionTable::new(LIMITS), Instant::now());
        for last in peers {
            table.open(peer(*last), *last, now).unwrap();
            now += Duration::from_secs(1);
        }
        (table, now)
    }

    #[test]
    fn one_peer_and_one_network_have_their_share() {
        let (mut table, now) = table(&[1, 1, 1]);
        assert_eq!(table.open(peer(1), 1, now), Err(ConnectionRefusal::Peer));
        assert!(table.open(Some([192, 0, 1, 2].into()), 1, now).is_ok());
        assert_eq!(table.open(Some([192, 0, 1, 3].into()), 1, now), Err(ConnectionRefusal::Network));
        assert!(table.open(peer(2), 2, now).is_ok());
    }

    #[test]
    fn a_full_table_evicts_the_longest_idle_connection() {
        let (mut table, now) = table(&[1, 2, 3, 4]);
        assert!(table.begin(1));
        let (id, evicted) = table.open(peer(5), 5, now).unwrap();
        assert_eq!((id, evicted), (5, Some(2)));
        assert!(!table.begin(2), "a request on an evicted connection must not begin");
        assert_eq!(table.close(2), None);
        assert_eq!(table.counts(), (3, 1));
    }

    #[test]
    fn a_connection_that_was_just_used_and_one_with_a_request_are_kept() {
        let (mut table, now) = table(&[1, 2, 3, 4]);
        assert!((1..=4).all(|id| table.begin(id)));
        (1..=2).for_each(|id| table.end(id, now));
        assert_eq!(table.open(peer(5), 5, now), Err(ConnectionRefusal::All));
        let later = now + EVICTION_GRACE;
        assert_eq!(table.open(peer(5), 5, later), Ok((5, Some(1))));
        // The unused one goes before one that has just been used, although it is idle for a shorter time.
        table.end(3, later);
        table.close(2);
        table.open(peer(6), 6, later).unwrap();
        assert_eq!(table.open(peer(7), 7, later), Ok((7, Some(5))));
    }

    #[test]
    fn the_fuller_the_table_the_shorter_a_connection_may_idle() {
        let (mut table, now) = table(&[1, 2]);
        assert_eq!(table.idle_timeout(), LIMITS.header_timeout + UNREAD_GRACE);
        assert_eq!(table.close_idle(now + LIMITS.header_timeout - UNREAD_GRACE), Vec::<u8>::new());
        table.open(peer(3), 3, now).unwrap();
        assert_eq!(table.idle_timeout(), Duration::from_millis(16_500));
        table.open(peer(4), 4, now).unwrap();
        assert_eq!(table.idle_timeout(), LIMITS.header_timeout / MIN_TIMEOUT_DIVISOR);
        // Two of four were idle for more than 3 s; without the first there may be 16.5 s.
        assert_eq!(table.close_idle(now + Duration::from_secs(2)), [1]);
    }

    #[test]
    fn a_full_table_evicts_the_connection_whose_body_has_been_arriving_for_longest() {
        let (mut table, now) = table(&[1, 2, 3, 4]);
        assert!((1..=4).all(|id| table.begin(id)));
        table.begin_body(2, now);
        table.begin_body(1, now + EVICTION_GRACE);
        assert_eq!(
            table.open(peer(5), 5, now + EVICTION_GRACE / 2),
            Err(ConnectionRefusal::All),
            "no body has been arriving for the grace time"
        );
        assert_eq!(table.open(peer(5), 5, now + EVICTION_GRACE), Ok((5, Some(2))));
        assert!(table.begin(5));
        // A complete body is no longer arriving.
        table.end_body(1);
        assert_eq!(table.open(peer(6), 6, now + 3 * EVICTION_GRACE), Err(ConnectionRefusal::All));
    }

    #[test]
    fn a_response_that_nobody_reads_is_waited_for_no_longer_than_a_request() {
        let (mut table, now) = table(&[1]);
        assert!(table.begin(1));
        table.end(1, now);
        assert_eq!(table.close_idle(now + LIMITS.header_timeout), Vec::<u8>::new());
        assert_eq!(table.close_idle(now + LIMITS.header_timeout + 2 * UNREAD_GRACE), [1]);
    }

    #[test]
    fn nothing_is_kept_of_closed_connections() {
        let (mut table, now) = table(&[1, 1, 2]);
        assert!(table.begin(1) && table.begin(2));
        table.end(1, now);
        table.begin_body(2, now);
        assert!((1..=3).all(|id| table.close(id).is_some()));
        assert!(table.entries.is_empty() && table.used.is_empty() && table.unused.is_empty());
        assert!(table.bodies.is_empty());
        assert!(table.shares.is_empty());
    }

    #[test]
    fn requests_through_a_proxy_count_like_connections_of_the_peer_and_the_proxys_own_do_not() {
        let (mut table, now) = table(&[1, 1]);
        let direct = peer(1).unwrap();
        assert_eq!(table.take_share(direct), Ok(()));
        assert_eq!(table.open(peer(1), 1, now), Err(ConnectionRefusal::Peer));
        assert_eq!(table.take_share(direct), Err(ExhaustedShare::Peer));
        table.release_share(direct);
        assert!(table.open(None, 9, now).is_ok() && table.open(None, 9, now).is_ok());
        assert!((1..=4).all(|id| table.close(id).is_some()));
        assert!(table.shares.is_empty());
    }

    #[test]
    fn nothing_is_counted_for_a_connection_that_a_full_table_refuses() {
        let (mut table, now) = table(&[1, 2, 3, 4]);
        assert!((1..=4).all(|id| table.begin(id)));
        assert_eq!(table.open(peer(5), 5, now), Err(ConnectionRefusal::All));
        assert!((1..=4).all(|id| table.close(id).is_some()));
        assert!(table.shares.is_empty());
    }
}
