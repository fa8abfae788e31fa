//! The memory budget of all bodies, and the shares of it for one address and one network.
//!
//! A caller needs no key to have a body read, and may send it slowly. So an address may have a quarter of the memory, or one body
//! of the largest size if that is more. A network may have half of the memory, and half of what is left when more than half is
//! taken, so that any number of networks leave some for the next one. While more than an eighth is left, a network may have at
//! least one body of the largest size. If an eighth of the memory is less than such a body, this holds however little is left.

use crate::connections::Network;
use crate::overload::OverloadReason;
use crate::refusal::Refusal;
use common::limited;
use common::log_limit::LogLimit;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Limits the log lines of refusals for a peer's share.
static REFUSED: LogLimit<1> = LogLimit::new();

/// The memory for bodies; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct BodyBudget(Arc<Shared>);

/// Memory charged for a body; released when dropped.
#[derive(Debug)]
pub(crate) struct BodyCharge {
    budget: BodyBudget,
    peer: IpAddr,
    bytes: usize,
}

#[derive(Debug)]
struct Shared {
    all: usize,
    /// The most bytes for one body.
    one_body: usize,
    charged: Mutex<Charged>,
}

/// Charged bytes. Has entries only for peers with a body, so it is as bounded as bodies are.
#[derive(Debug, Default)]
struct Charged {
    total: usize,
    peers: HashMap<IpAddr, usize>,
    networks: HashMap<Network, usize>,
}

/// Which limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exhausted {
    All,
    Share,
}

impl BodyBudget {
    /// `all` bytes, of which one body takes at most `one_body`.
    pub(crate) fn new(all: usize, one_body: usize) -> Self {
        Self(Arc::new(Shared { all, one_body, charged: Mutex::default() }))
    }

    /// Takes `bytes` for a body that `peer` sends; 503 `overloaded` when the budget or the peer's share is exhausted.
    pub(crate) fn take(&self, peer: IpAddr, bytes: usize) -> Result<BodyCharge, Refusal> {
        let peer = peer.to_canonical();
        let mut charged = self.charged();
        if let Some(exhausted) = self.0.exhausted(&charged, peer, bytes) {
            drop(charged);
            if exhausted == Exhausted::Share {
                let network = Network::of(peer);
                limited!(REFUSED[0], warn, %network, "request refused: its peer holds its share of the memory for bodies");
            }
            return Err(OverloadReason::BodyBudget.refuse());
        }
        charged.total += bytes;
        *charged.peers.entry(peer).or_insert(0) += bytes;
        *charged.networks.entry(Network::of(peer)).or_insert(0) += bytes;
        Ok(BodyCharge { budget: self.clone(), peer, bytes })
    }

    #[cfg(test)]
    pub(crate) fn total(&self) -> usize {
        self.charged().total
    }

    fn charged(&self) -> MutexGuard<'_, Charged> {
        self.0.charged.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn exhausted(&self, charged: &Charged, peer: IpAddr, bytes: usize) -> Option<Exhausted> {
        let total = charged.total + bytes;
        if total > self.all {
            return Some(Exhausted::All);
        }
        let own = charged.peers.get(&peer).copied().unwrap_or(0);
        let of_network = charged.networks.get(&Network::of(peer)).copied().unwrap_or(0);
        let (left, last_eighth) = (self.all - charged.total, self.all / 8);
        // One body of the largest size is guaranteed to a network until only the last eighth is left; always, if an eighth is less
        // than such a body.
        let guaranteed = if left > last_eighth || last_eighth < self.one_body { self.one_body } else { 0 };
        let network_share = if total > self.all / 2 { left / 2 } else { self.all / 2 };
        let is_share = own + bytes > (self.all / 4).max(self.one_body)
            || of_network + bytes > network_share.max(guaranteed);
        is_share.then_some(Exhausted::Share)
    }
}

impl Drop for BodyCharge {
    fn drop(&mut self) {
        let mut charged = self.budget.charged();
        charged.total -= self.bytes;
        release_bytes(&mut charged.peers, &self.peer, self.bytes);
        release_bytes(&mut charged.networks, &Network::of(self.peer), self.bytes);
    }
}

fn release_bytes<K: Eq + Hash>(charged: &mut HashMap<K, usize>, key: &K, bytes: usize) {
    if let Some(own) = charged.get_mut(key) {
        *own -= bytes;
        if *own == 0 {
            charged.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(budget: &BodyBudget, peer: [u8; 4]) -> Vec<BodyCharge> {
        std::iter::from_fn(|| budget.take(peer.into(), 10).ok()).collect()
    }

    #[test]
    fn an_address_has_a_quarter_and_a_network_half_and_all_of_it_comes_back() {
        let budget = BodyBudget::new(1_600, 20);
        let first = take(&budget, [192, 0, 2, 1]);
        let network: Vec<_> = (2..5).flat_map(|last| take(&budget, [192, 0, 2, last])).collect();
        assert_eq!((first.len(), network.len()), (40, 40));
        drop((first, network));
        let charged = budget.charged();
        assert!(charged.total == 0 && charged.peers.is_empty() && charged.networks.is_empty());
    }

    #[test]
    fn networks_that_take_all_that_they_get_leave_memory_for_another() {
        let budget = BodyBudget::new(1_600, 20);
        let mut held = Vec::new();
        for network in 1..=10 {
            held.extend((1..=4).flat_map(|last| take(&budget, [192, 0, network, last])));
        }
        assert!(!take(&budget, [198, 51, 100, 1]).is_empty(), "{} are taken", budget.total());
    }

    #[test]
    fn a_single_body_fits_however_small_the_budget_is() {
        let budget = BodyBudget::new(16, 16);
        let whole = budget.take([192, 0, 2, 1].into(), 16).unwrap();
        assert_eq!(
            budget.take([192, 0, 3, 1].into(), 1).unwrap_err(),
            Refusal::Overloaded { retry_after: 1 }
        );
        drop(whole);
        assert!(budget.take([192, 0, 3, 1].into(), 16).is_ok());
    }
}
