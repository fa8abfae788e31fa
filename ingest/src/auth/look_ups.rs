//! Whose key is looked up next: an address, and a network, may have only a part of the connections for look-ups.
//!
//! Anybody can name prefixes that nobody has, each of which must be looked up. Such look-ups wait for those of the same
//! address; those of other addresses find a connection free.

use crate::connections::Network;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Look-ups at once of one address, and of one network. All together have four connections.
const PER_PEER: usize = 2;
const PER_NETWORK: usize = 3;

/// The look-ups that wait or are under way.
#[derive(Debug, Default)]
pub(super) struct LookUpTurns(Mutex<Waiting>);

/// Has an entry only for who has a look-up that waits or is under way, so it is as bounded as requests are.
#[derive(Debug, Default)]
struct Waiting {
    peers: HashMap<IpAddr, Arc<Semaphore>>,
    networks: HashMap<Network, Arc<Semaphore>>,
}

/// The right to look up a key, until it is dropped.
pub(super) struct Turn<'t> {
    /// Before `_waiter`, which forgets those whose turns have ended.
    _permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    _waiter: Waiter<'t>,
}

/// Somebody who has or wants a turn.
struct Waiter<'t> {
    turns: &'t LookUpTurns,
    peer: IpAddr,
}

impl LookUpTurns {
    /// Waits for a turn of `peer`. Those of one address come in their order.
    pub(super) async fn take(&self, peer: IpAddr) -> Turn<'_> {
        let peer = peer.to_canonical();
        let waiter = Waiter { turns: self, peer };
        let (of_peer, of_network) = self.semaphores(peer);
        let closed = "these semaphores are never closed";
        // In this order, so that who waits for a turn of its own keeps nobody of its network from one.
        let of_peer = of_peer.acquire_owned().await.expect(closed);
        let of_network = of_network.acquire_owned().await.expect(closed);
        Turn { _permits: (of_peer, of_network), _waiter: waiter }
    }

    fn semaphores(&self, peer: IpAddr) -> (Arc<Semaphore>, Arc<Semaphore>) {
        let mut waiting = self.waiting();
        let semaphore = |permits| move || Arc::new(Semaphore::new(permits));
        let of_peer = Arc::clone(waiting.peers.entry(peer).or_insert_with(semaphore(PER_PEER)));
        let of_network =
            Arc::clone(waiting.networks.entry(Network::of(peer)).or_insert_with(semaphore(PER_NETWORK)));
        (of_peer, of_network)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.turns.waiting();
        forget_unused(&mut waiting.peers, &self.peer);
        forget_unused(&mut waiting.networks, &Network::of(self.peer));
    }
}

/// Removes a semaphore that only the map has: all others are cloned from there, under its lock.
fn forget_unused<K: Eq + Hash>(semaphores: &mut HashMap<K, Arc<Semaphore>>, key: &K) {
    if semaphores.get(key).is_some_and(|semaphore| Arc::strong_count(semaphore) == 1) {
        semaphores.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_and_a_network_leave_turns_for_the_others() {
        let turns = LookUpTurns::default();
        let take = |text: &str| turns.take(address(text)).now_or_never();
        let first = [take("192.0.2.1").expect("a turn"), take("::ffff:192.0.2.1").expect("a turn")];
        assert!(take("192.0.2.1").is_none(), "the address has its part");
        let second = take("192.0.2.2").expect("a turn");
        assert!(take("192.0.2.3").is_none(), "the network has its part");
        let other = take("198.51.100.1").expect("a turn");
        drop(first);
        drop((take("192.0.2.3").expect("a turn"), second, other));
        let waiting = turns.waiting();
        assert!(waiting.peers.is_empty() && waiting.networks.is_empty(), "{waiting:?}");
    }

    #[tokio::test]
    async fn a_turn_comes_when_another_ends_and_nothing_is_kept_of_who_gave_up() {
        let turns = LookUpTurns::default();
        let peer = address("2001:db8::1");
        let (first, second) = (turns.take(peer).await, turns.take(peer).await);
        let mut waits = Box::pin(turns.take(peer));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(first);
        let third = waits.await;
        let mut gives_up = Box::pin(turns.take(peer));
        assert!(gives_up.as_mut().now_or_never().is_none());
        drop((second, third));
        drop(gives_up);
        let waiting = turns.waiting();
        assert!(waiting.peers.is_empty() && waiting.networks.is_empty(), "{waiting:?}");
    }
}
