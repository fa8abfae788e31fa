//! Which connections there are, whose they are, and which of them have been idle longest. Pure: time is handed in.

use super::peer::Network;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// A used connection is kept for that long after a response, however full the table is: its caller may be about to
/// send the next request, and could not know whether that was taken.
const KEPT_AFTER_RESPONSE: Duration = Duration::from_secs(1);

/// The part of `header_timeout` that is left when the table is full.
const SHORTEST: u32 = 10;

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
    /// `CONNECT_MAX_CONNECTIONS` connections are open, and none of them is idle.
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

/// Names a connection. Ids grow: the smaller of two is the older.
pub(super) type ConnectionId = u64;

#[derive(Debug)]
struct Entry<C> {
    peer: IpAddr,
    /// Since when it is idle, as its place in `idle` is; `None` with a request under way.
    idle: Option<(Instant, ConnectionId)>,
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
    peers: HashMap<IpAddr, u32>,
    networks: HashMap<Network, u32>,
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
            peers: HashMap::new(),
            networks: HashMap::new(),
        }
    }

    /// Takes a connection of `peer` in. At a full table the longest idle connection makes room; it is given, too.
    pub(super) fn open(
        &mut self,
        peer: IpAddr,
        closer: C,
        now: Instant,
    ) -> Result<(ConnectionId, Option<C>), ConnectionRefusal> {
        let peer = peer.to_canonical();
        if self.peers.get(&peer).is_some_and(|count| *count >= self.limits.per_peer) {
            return Err(ConnectionRefusal::Peer);
        }
        if self.networks.get(&Network::of(peer)).is_some_and(|count| *count >= self.limits.per_network) {
            return Err(ConnectionRefusal::Network);
        }
        let mut evicted = None;
        if self.entries.len() >= self.limits.all as usize {
            let longest = self.longest_idle(now).ok_or(ConnectionRefusal::All)?;
            evicted = self.close(longest);
        }
        self.last += 1;
        let id = self.last;
        self.unused.insert((now, id), ());
        self.entries.insert(id, Entry { peer, idle: Some((now, id)), is_used: false, closer });
        *self.peers.entry(peer).or_insert(0) += 1;
        *self.networks.entry(Network::of(peer)).or_insert(0) += 1;
        Ok((id, evicted))
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
        decrement(&mut self.peers, &entry.peer);
        decrement(&mut self.networks, &Network::of(entry.peer));
        Some(entry.closer)
    }

    /// Takes out all that have been idle for longer than the fill of the table allows.
    pub(super) fn close_idle(&mut self, now: Instant) -> Vec<C> {
        let mut closed = Vec::new();
        while self.entries.len() > self.limits.all as usize / 2
            && let Some((since, id)) = self.first_idle()
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

    /// The one that makes room for another.
    fn longest_idle(&self, now: Instant) -> Option<ConnectionId> {
        let is_kept = |(since, id): (Instant, ConnectionId)| {
            self.used.contains_key(&(since, id)) && now.saturating_duration_since(since) < KEPT_AFTER_RESPONSE
        };
        let first = self.first_idle().filter(|place| !is_kept(*place));
        let unused = || self.unused.first_key_value().map(|(place, ())| *place);
        first.or_else(unused).map(|(_, id)| id)
    }
}

fn decrement<K: Eq + Hash>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits =
        ConnectionLimits { all: 4, per_peer: 3, per_network: 4, header_timeout: Duration::from_secs(30) };

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, last, last])
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
        assert!(table.open([192, 0, 1, 2].into(), 1, now).is_ok());
        assert_eq!(table.open([192, 0, 1, 3].into(), 1, now), Err(ConnectionRefusal::Network));
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
        let later = now + KEPT_AFTER_RESPONSE;
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
        assert_eq!(table.idle_timeout(), LIMITS.header_timeout);
        assert_eq!(table.close_idle(now + 2 * LIMITS.header_timeout), Vec::<u8>::new());
        table.open(peer(3), 3, now).unwrap();
        assert_eq!(table.idle_timeout(), Duration::from_millis(16_500));
        table.open(peer(4), 4, now).unwrap();
        assert_eq!(table.idle_timeout(), LIMITS.header_timeout / SHORTEST);
        // Two of four were idle for more than 3 s; without the first there may be 16.5 s.
        assert_eq!(table.close_idle(now + Duration::from_secs(2)), [1]);
    }

    #[test]
    fn nothing_is_kept_of_closed_connections() {
        let (mut table, now) = table(&[1, 1, 2]);
        assert!(table.begin(1));
        table.end(1, now);
        assert!((1..=3).all(|id| table.close(id).is_some()));
        assert!(table.entries.is_empty() && table.used.is_empty() && table.unused.is_empty());
        assert!(table.peers.is_empty() && table.networks.is_empty());
    }
}
