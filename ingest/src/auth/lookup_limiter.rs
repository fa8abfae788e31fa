//! Limits the key look-ups that one address, or one network, may run at once, so that neither uses all connections for look-ups.
//!
//! Anybody can send unknown prefixes, each of which must be looked up. Such look-ups wait for those of the same address, so
//! that other addresses find a free connection.

use common::shares::Network;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The most look-ups that run at once for one address, and for one network. The pool has four connections.
const PER_PEER: usize = 2;
const PER_NETWORK: usize = 3;

/// The look-ups that wait or are under way.
#[derive(Debug, Default)]
pub(super) struct KeyLookupLimiter(Mutex<PeerSemaphores>);

/// Has entries only for look-ups that wait or are under way, so the number of requests under way bounds its size.
#[derive(Debug, Default)]
struct PeerSemaphores {
    peers: HashMap<IpAddr, Arc<Semaphore>>,
    networks: HashMap<Network, Arc<Semaphore>>,
}

/// Permits one key look-up; released when dropped.
pub(super) struct LookupPermit<'t> {
    /// Declared, and so dropped, before `_waiter`, which removes unused semaphores.
    _permits: (OwnedSemaphorePermit, OwnedSemaphorePermit),
    _waiter: WaiterGuard<'t>,
}

/// Removes a peer's semaphores when its last waiter is dropped.
struct WaiterGuard<'t> {
    limiter: &'t KeyLookupLimiter,
    peer: IpAddr,
}

impl KeyLookupLimiter {
    /// Waits for a permit for `peer`. Permits of one address are granted in the order of the calls.
    pub(super) async fn take(&self, peer: IpAddr) -> LookupPermit<'_> {
        let peer = peer.to_canonical();
        let waiter = WaiterGuard { limiter: self, peer };
        let (of_peer, of_network) = self.semaphores(peer);
        let closed = "these semaphores are never closed";
        // In this order, so that an address that waits for its own permit does not hold one of its network.
        let of_peer = of_peer.acquire_owned().await.expect(closed);
        let of_network = of_network.acquire_owned().await.expect(closed);
        LookupPermit { _permits: (of_peer, of_network), _waiter: waiter }
    }

    fn semaphores(&self, peer: IpAddr) -> (Arc<Semaphore>, Arc<Semaphore>) {
        let mut waiting = self.waiting();
        let semaphore = |permits| move || Arc::new(Semaphore::new(permits));
        let of_peer = Arc::clone(waiting.peers.entry(peer).or_insert_with(semaphore(PER_PEER)));
        let of_network =
            Arc::clone(waiting.networks.entry(Network::of(peer)).or_insert_with(semaphore(PER_NETWORK)));
        (of_peer, of_network)
    }

    fn waiting(&self) -> MutexGuard<'_, PeerSemaphores> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        let mut waiting = self.limiter.waiting();
        remove_unused(&mut waiting.peers, &self.peer);
        remove_unused(&mut waiting.networks, &Network::of(self.peer));
    }
}

/// Removes a semaphore that only the map refers to. Others clone it only under the map's lock.
fn remove_unused<K: Eq + Hash>(semaphores: &mut HashMap<K, Arc<Semaphore>>, key: &K) {
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
    fn an_address_and_a_network_leave_permits_for_the_others() {
        let limiter = KeyLookupLimiter::default();
        let take = |text: &str| limiter.take(address(text)).now_or_never();
        let first = [take("192.0.2.1").expect("a permit"), take("::ffff:192.0.2.1").expect("a permit")];
        assert!(take("192.0.2.1").is_none(), "the address has its share");
        let second = take("192.0.2.2").expect("a permit");
        assert!(take("192.0.2.3").is_none(), "the network has its share");
        let other = take("198.51.100.1").expect("a permit");
        drop(first);
        drop((take("192.0.2.3").expect("a permit"), second, other));
        let waiting = limiter.waiting();
        assert!(waiting.peers.is_empty() && waiting.networks.is_empty(), "{waiting:?}");
    }

    #[tokio::test]
    async fn a_released_permit_goes_to_the_next_waiter_and_no_entry_outlives_its_waiters() {
        let limiter = KeyLookupLimiter::default();
        let peer = address("2001:db8::1");
        let (first, second) = (limiter.take(peer).await, limiter.take(peer).await);
        let mut waits = Box::pin(limiter.take(peer));
        assert!(waits.as_mut().now_or_never().is_none());
        drop(first);
        let third = waits.await;
        let mut canceled = Box::pin(limiter.take(peer));
        assert!(canceled.as_mut().now_or_never().is_none());
        drop((second, third));
        drop(canceled);
        let waiting = limiter.waiting();
        assert!(waiting.peers.is_empty() && waiting.networks.is_empty(), "{waiting:?}");
    }
}
