//! Which connections there are, whose they are, and which of them have been idle longest. Pure: time is handed in.

use super::limits::{ConnectionLimits, ConnectionRefusal};
use super::shares::{PeerShares, UsedUpShare};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A used connection is kept for that long after a response, however full the table is: its caller may be about to
/// send the next request, and could not know whether that was taken. So is one whose request's body is arriving.
const KEPT: Duration = Duration::from_secs(1);

/// How much longer than `header_timeout` a connection may idle while the table is at most half full. The HTTP library
/// closes those that send no request in that time; of what is left nobody reads the response.
const UNREAD_GRACE: Duration = Duration::from_secs(1);

/// The part of `header_timeout` that is left when the table is full.
const SHORTEST: u32 = 10;

/// Names a connection. Ids grow: the smaller of two is the older.
pub(super) type ConnectionId = u64;

#[derive(Debug)]
struct Entry<C> {
    /// Whose share it counts against; `None` for a trusted proxy, whose connections carry requests of many peers.
    peer: Option<IpAddr>,
    /// Since when it is idle, as its place in `idle` is; `None` with a request under way.
    idle: Option<(Instant, ConnectionId)>,
    /// Since when its request's body is arriving, as its place in `bodies` is.
    body: Option<(Instant, ConnectionId)>,
    /// Whether it has had a request.
    is_used: bool,
    /// What closes it.
    closer: C,
}

/// All open connections: at most `limits.all`. Every operation takes logarithmic time.
#[derive(Debug)]
pub(super) struct ConnectionTable<C> {
    limits: ConnectionLimits,
    last: ConnectionId,
    entries: HashMap<ConnectionId, Entry<C>>,
    /// Idle connections, longest idle first: those that have had a request, and those that have not.
    used: BTreeMap<(Instant, ConnectionId), ()>,
    unused: BTreeMap<(Instant, ConnectionId), ()>,
    /// Connections with a body that is arriving, the one that has been for longest first.
    bodies: BTreeMap<(Instant, ConnectionId), ()>,
    shares: PeerShares,
}

impl<C> ConnectionTable<C> {
    /// No connections.
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self {
            limits,
            last: 0,
            entries: HashMap::new(),
            used: BTreeMap::new(),
            unused: BTreeMap::new(),
            bodies: BTreeMap::new(),
            shares: PeerShares::new(limits.per_peer, limits.per_network),
        }
    }

    /// Takes a connection in, which counts against the share of `peer`. At a full table the longest idle connection makes
    /// room, or the one whose body has been arriving for longest; it is given, too.
    pub(super) fn open(
        &mut self,
        peer: Option<IpAddr>,
        closer: C,
        now: Instant,
    ) -> Result<(ConnectionId, Option<C>), ConnectionRefusal> {
        if let Some(peer) = peer {
            self.shares.take(peer)?;
        }
        let mut evicted = None;
        if self.entries.len() >= self.limits.all as usize {
            let Some(longest) = self.making_room(now) else {
                self.give_back(peer);
                return Err(ConnectionRefusal::All);
            };
            evicted = self.close(longest);
        }
        self.last += 1;
        let id = self.last;
        self.unused.insert((now, id), ());
        self.entries.insert(id, Entry { peer, idle: Some((now, id)), body: None, is_used: false, closer });
        Ok((id, evicted))
    }

    /// Counts a request that a trusted proxy passes on for `peer` against the peer's share, as a connection of its own.
    pub(super) fn take_share(&mut self, peer: IpAddr) -> Result<(), UsedUpShare> {
        self.shares.take(peer)
    }

    /// The request that had such a share has ended.
    pub(super) fn give_back(&mut self, peer: impl Into<Option<IpAddr>>) {
        if let Some(peer) = peer.into() {
            self.shares.give_back(peer);
        }
    }

    /// Notes that a request begins. False when the connection was taken out: the request must not begin.
    pub(super) fn begin(&mut self, id: ConnectionId) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        if let Some(place) = entry.idle.take() {
            let idle = if entry.is_used { &mut self.used } else { &mut self.unused };
            idle.remove(&place);
        }
        entry.is_used = true;
        true
    }

    /// Notes that the body of the connection's request has to be waited for.
    pub(super) fn begin_body(&mut self, id: ConnectionId, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if let Some(before) = entry.body.replace((now, id)) {
            self.bodies.remove(&before);
        }
        self.bodies.insert((now, id), ());
    }

    /// Notes that the body is there, or is not waited for any longer.
    pub(super) fn end_body(&mut self, id: ConnectionId) {
        if let Some(place) = self.entries.get_mut(&id).and_then(|entry| entry.body.take()) {
            self.bodies.remove(&place);
        }
    }

    /// Notes that the request has its response.
    pub(super) fn end(&mut self, id: ConnectionId, now: Instant) {
        let Some(entry) = self.entries.get_mut(&id) else { return };
        if entry.idle.is_none() {
            entry.idle = Some((now, id));
            self.used.insert((now, id), ());
        }
    }

    /// Takes a connection out and gives what closes it, unless it was taken out before.
    pub(super) fn close(&mut self, id: ConnectionId) -> Option<C> {
        let entry = self.entries.remove(&id)?;
        if let Some(place) = entry.idle {
            let idle = if entry.is_used { &mut self.used } else { &mut self.unused };
            idle.remove(&place);
        }
        if let Some(place) = entry.body {
            self.bodies.remove(&place);
        }
        self.give_back(entry.peer);
        Some(entry.closer)
    }

    /// Takes out all that have been idle for longer than the fill of the table allows.
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
        let shortest = whole / SHORTEST;
        let share = f64::from(free) / (f64::from(all) / 2.0);
        shortest + (whole - shortest).mul_f64(share.min(1.0))
    }

    fn first_idle(&self) -> Option<(Instant, ConnectionId)> {
        let first = |idle: &BTreeMap<_, ()>| idle.first_key_value().map(|(place, ())| *place);
        match (first(&self.used), first(&self.unused)) {
            (Some(used), Some(unused)) => Some(used.min(unused)),
            (used, unused) => used.or(unused),
        }
    }

    /// The one that makes room for another: the longest idle one or the one whose body has been arriving for longest, when
    /// that is long enough, and otherwise one that has had no request.
    fn making_room(&self, now: Instant) -> Option<ConnectionId> {
        let is_long = |(since, _): &(Instant, ConnectionId)| now.saturating_duration_since(*since) >= KEPT;
        let first = |places: &BTreeMap<_, ()>| places.first_key_value().map(|(place, ())| *place);
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
    fn the_longest_idle_connection_makes_room_at_a_full_table() {
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
        let later = now + KEPT;
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
        assert_eq!(table.idle_timeout(), LIMITS.header_timeout / SHORTEST);
        // Two of four were idle for more than 3 s; without the first there may be 16.5 s.
        assert_eq!(table.close_idle(now + Duration::from_secs(2)), [1]);
    }

    #[test]
    fn the_body_that_has_been_arriving_for_longest_makes_room_at_a_full_table() {
        let (mut table, now) = table(&[1, 2, 3, 4]);
        assert!((1..=4).all(|id| table.begin(id)));
        table.begin_body(2, now);
        table.begin_body(1, now + KEPT);
        assert_eq!(table.open(peer(5), 5, now + KEPT / 2), Err(ConnectionRefusal::All), "it takes no time");
        assert_eq!(table.open(peer(5), 5, now + KEPT), Ok((5, Some(2))));
        assert!(table.begin(5));
        // A body that is there is none that arrives.
        table.end_body(1);
        assert_eq!(table.open(peer(6), 6, now + 3 * KEPT), Err(ConnectionRefusal::All));
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
        assert_eq!(table.take_share(direct), Err(UsedUpShare::Peer));
        table.give_back(direct);
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
