//! Which connections there are, and which one is closed for a new one. Pure: time is an argument.
//!
//! Each peer and network has a share, idle times get shorter as the places run out, and when none is left, the longest
//! idle connection is closed for a new one, or the one whose body has been arriving for longest.

use super::connections::{ConnectionLimits, ConnectionRefusal};
use crate::shares::PeerCounts;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// A used connection is not closed for a new one for that long after a response, however few places are left: its
/// caller may be sending the next request, and could not know whether that was processed. The same holds for one whose
/// body is arriving.
const GRACE: Duration = Duration::from_secs(1);
/// When no place is left, the idle time is divided by this.
const SHORTEST_IDLE_DIVISOR: u32 = 10;

/// What looks for the longest idle connection reads all of them, which happens only when no place is left, and twice a
/// second.
pub(super) struct Table {
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
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        let (entries, spares, shares) = (HashMap::new(), BTreeSet::new(), PeerCounts::default());
        Self { limits, last: 0, idle: 0, entries, spares, shares }
    }

    /// The numbers of idle connections and of those with a request.
    pub(super) fn counts(&self) -> (usize, usize) {
        (self.idle, self.entries.len() - self.idle)
    }

    /// Adds a connection. When no place is left, it takes that of another one, and returns its token, too.
    pub(super) fn open(
        &mut self, peer: Option<IpAddr>, closed: CancellationToken, now: Instant,
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

    /// Takes a part of the share of `peer`, and a place that is no spare one: returns the connection that must be
    /// closed for it.
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
    pub(super) fn take_share(&mut self, peer: IpAddr) -> Result<(), ConnectionRefusal> {
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

    /// Gives back a part that [`take_share`](Self::take_share) has taken.
    pub(super) fn return_share(&mut self, peer: IpAddr) {
        self.shares.subtract(peer, 1);
    }

    /// False when the connection was removed: the request must not begin.
    pub(super) fn begin(&mut self, id: u64) -> bool {
        let Some(entry) = self.entries.get_mut(&id) else { return false };
        self.idle -= usize::from(entry.idle.take().is_some());
        entry.is_used = true;
        true
    }

    pub(super) fn end(&mut self, id: u64, now: Instant) {
        if let Some(entry) = self.entries.get_mut(&id)
            && entry.idle.replace(now).is_none()
        {
            self.idle += 1;
        }
    }

    pub(super) fn set_body(&mut self, id: u64, since: Option<Instant>) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.body = since;
        }
    }

    /// Removes a connection and returns its token, unless it was removed before.
    pub(super) fn close(&mut self, id: u64) -> Option<CancellationToken> {
        let entry = self.entries.remove(&id)?;
        self.spares.remove(&id);
        self.idle -= usize::from(entry.idle.is_some());
        if let Some(peer) = entry.peer {
            self.shares.subtract(peer, 1);
        }
        Some(entry.closed)
    }

    /// Removes the connections that have been idle for longer than the current idle time, the longest idle first.
    pub(super) fn close_idle(&mut self, now: Instant) -> Vec<CancellationToken> {
        let mut closed = Vec::new();
        while let Some((since, id)) = self.longest(|entry| entry.idle)
            && now.saturating_duration_since(since) > self.idle_time()
        {
            closed.extend(self.close(id));
        }
        closed
    }

    /// How long a connection may be idle now: the whole time while at most half of the places are taken, a tenth of it
    /// when none is left, and in between the less the fewer there are.
    fn idle_time(&self) -> Duration {
        let (whole, all) = (self.limits.times.idle, f64::from(self.limits.all));
        let free = (all - self.entries.len() as f64) / (all / 2.0);
        let shortest = whole / SHORTEST_IDLE_DIVISOR;
        shortest + (whole - shortest).mul_f64(free.clamp(0.0, 1.0))
    }

    /// The connection to close for a new one: the longest idle one or the one whose body has been arriving for longest,
    /// when that is long enough, and otherwise one that has had no request.
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
    use crate::http::ConnectionTimes;

    const TIMES: ConnectionTimes = ConnectionTimes { head: Duration::from_secs(10), idle: Duration::from_secs(30) };
    const LIMITS: ConnectionLimits = ConnectionLimits { all: 4, per_peer: 3, per_network: 4, spare: 0, times: TIMES };

    fn peer(last: u8) -> IpAddr {
        IpAddr::from([192, 0, last, last])
    }

    /// Connections of these peers, opened a second apart; with ids from 1.
    fn opened(peers: &[u8]) -> (Table, Vec<CancellationToken>, Instant) {
        let (mut table, mut tokens, mut now) = (Table::new(LIMITS), Vec::new(), Instant::now());
        for last in peers {
            let token = CancellationToken::new();
            table.open(Some(peer(*last)), token.clone(), now).unwrap();
            tokens.push(token);
            now += Duration::from_secs(1);
        }
        (table, tokens, now)
    }

    fn cancel(evicted: impl IntoIterator<Item = CancellationToken>) {
        evicted.into_iter().for_each(|connection| connection.cancel());
    }

    /// Opens a connection, and says which one was closed for it, by its place among `tokens`.
    fn open(
        table: &mut Table, last: u8, now: Instant, tokens: &[CancellationToken],
    ) -> Result<Option<usize>, ConnectionRefusal> {
        let (_, evicted) = table.open(Some(peer(last)), CancellationToken::new(), now)?;
        cancel(evicted);
        Ok(tokens.iter().position(CancellationToken::is_cancelled))
    }

    fn is_empty(table: &mut Table) -> bool {
        (1..=table.last).for_each(|id| drop(table.close(id)));
        table.entries.is_empty() && table.idle == 0 && table.shares.is_empty()
    }

    #[test]
    fn one_peer_and_one_network_have_their_share() {
        let (mut table, tokens, now) = opened(&[1, 1, 1]);
        assert_eq!(open(&mut table, 1, now, &tokens), Err(ConnectionRefusal::Peer));
        assert_eq!(table.take_share([192, 0, 1, 2].into()), Ok(()));
        assert_eq!(table.take_share([192, 0, 1, 3].into()), Err(ConnectionRefusal::Network));
        assert_eq!(open(&mut table, 2, now, &tokens), Ok(None));
        table.return_share([192, 0, 1, 2].into());
        assert!(is_empty(&mut table));
    }

    #[test]
    fn a_connection_that_would_be_refused_takes_a_spare_place_and_then_the_oldest_of_these() {
        let (mut table, tokens, now) = opened(&[1, 1, 1]);
        table.limits.spare = 2;
        let spare = [(); 2].map(|()| CancellationToken::new());
        for token in &spare {
            assert!(table.open(Some(peer(1)), token.clone(), now).is_ok_and(|(_, evicted)| evicted.is_none()));
        }
        assert_eq!(open(&mut table, 1, now, &spare), Ok(Some(0)));
        assert_eq!(open(&mut table, 2, now, &tokens), Ok(None), "a spare place takes none of the others");
        assert!(is_empty(&mut table) && table.spares.is_empty());
    }

    #[test]
    fn without_a_place_the_longest_idle_connection_is_closed_for_a_new_one() {
        let (mut table, tokens, now) = opened(&[1, 2, 3, 4]);
        assert!(table.begin(1));
        assert_eq!(open(&mut table, 5, now, &tokens), Ok(Some(1)));
        assert!(!table.begin(2), "a request on a closed connection must not begin");
        assert!(table.close(2).is_none());
        assert_eq!((table.idle, table.entries.len()), (3, 4));
        assert!(is_empty(&mut table));
    }

    #[test]
    fn a_connection_that_was_just_used_and_one_with_a_request_are_kept() {
        let (mut table, tokens, now) = opened(&[1, 2, 3, 4]);
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
        let (mut table, tokens, now) = opened(&[1, 2]);
        assert_eq!(table.idle_time(), TIMES.idle);
        assert!(table.close_idle(now + TIMES.idle - Duration::from_secs(2)).is_empty());
        open(&mut table, 3, now, &tokens).unwrap();
        assert_eq!(table.idle_time(), Duration::from_millis(16_500));
        open(&mut table, 4, now, &tokens).unwrap();
        assert_eq!(table.idle_time(), TIMES.idle / SHORTEST_IDLE_DIVISOR);
        // Two of four were idle for more than 3 s; without the first there may be 16.5 s.
        cancel(table.close_idle(now + Duration::from_secs(2)));
        assert_eq!(tokens.iter().position(CancellationToken::is_cancelled), Some(0));
        assert_eq!(table.entries.len(), 3);
    }

    #[test]
    fn without_an_idle_connection_the_one_whose_body_arrives_for_longest_is_closed() {
        let (mut table, tokens, now) = opened(&[1, 2, 3, 4]);
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
        let (mut table, tokens, now) = opened(&[1, 1]);
        table.open(None, CancellationToken::new(), now).unwrap();
        assert_eq!(table.take_share(peer(1)), Ok(()));
        assert_eq!(open(&mut table, 1, now, &tokens), Err(ConnectionRefusal::Peer));
        assert_eq!(table.take_share(peer(1)), Err(ConnectionRefusal::Peer));
        table.return_share(peer(1));
        assert_eq!(open(&mut table, 1, now, &tokens), Ok(None));
        assert!(is_empty(&mut table));
    }
}
