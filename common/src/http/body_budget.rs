//! The budget of memory for all bodies together.
//!
//! A caller may send its body slowly. So an address may have a quarter of the memory, or one body of the largest size
//! if that is more. A network may have half of the memory, and half of what is left when more than half is taken, so
//! that any number of networks leave some for the next one. While more than an eighth is left, a network may have at
//! least one body of the largest size. If an eighth of the memory is less than such a body, this holds however little
//! is left.

use crate::limited;
use crate::log_limit::LogLimit;
use crate::shares::{Network, PeerCounts};
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;

/// Limits the log lines of refusals for a peer's share.
static REFUSED: LogLimit<1> = LogLimit::new();

/// The memory for bodies; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct BodyBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    all: usize,
    /// The most bytes for one body.
    one_body: usize,
    charged: Mutex<Charged>,
}

/// Charged bytes.
#[derive(Debug, Default)]
struct Charged {
    total: usize,
    peers: PeerCounts,
}

/// Memory charged for a body; released when dropped.
#[derive(Debug)]
pub(super) struct BodyCharge {
    budget: BodyBudget,
    peer: IpAddr,
    bytes: usize,
}

impl BodyBudget {
    /// `all` bytes, of which one body takes at most `one_body`.
    pub(super) fn new(all: usize, one_body: usize) -> Self {
        Self(Arc::new(Budget { all, one_body, charged: Mutex::default() }))
    }

    /// Takes `bytes` for a body that `peer` sends; `None` when the budget or the peer's share is exhausted.
    pub(super) fn take(&self, peer: IpAddr, bytes: usize) -> Option<BodyCharge> {
        let mut charged = self.0.charged.lock();
        if charged.total + bytes > self.0.all {
            return None;
        }
        if self.0.is_share_exhausted(&charged, peer, bytes) {
            drop(charged);
            let network = Network::of(peer);
            limited!(REFUSED[0], warn, %network, "request refused: its peer holds its share of the memory for bodies");
            return None;
        }
        charged.total += bytes;
        charged.peers.add(peer, bytes);
        Some(BodyCharge { budget: self.clone(), peer, bytes })
    }

    /// The bytes that are charged now.
    #[cfg(test)]
    pub(super) fn total(&self) -> usize {
        self.0.charged.lock().total
    }
}

impl Budget {
    fn is_share_exhausted(&self, charged: &Charged, peer: IpAddr, bytes: usize) -> bool {
        let (own, of_network) = charged.peers.of(peer);
        let (left, last_eighth) = (self.all - charged.total, self.all / 8);
        // One body of the largest size is guaranteed to a network until only the last eighth is left; always, if an
        // eighth is less than such a body.
        let guaranteed = if left > last_eighth || last_eighth < self.one_body { self.one_body } else { 0 };
        let is_scarce = charged.total + bytes > self.all / 2;
        let network_share = if is_scarce { left / 2 } else { self.all / 2 };
        own + bytes > (self.all / 4).max(self.one_body) || of_network + bytes > network_share.max(guaranteed)
    }
}

impl Drop for BodyCharge {
    fn drop(&mut self) {
        let mut charged = self.budget.0.charged.lock();
        charged.total -= self.bytes;
        charged.peers.subtract(self.peer, self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(budget: &BodyBudget, peer: [u8; 4]) -> Vec<BodyCharge> {
        std::iter::from_fn(|| budget.take(peer.into(), 10)).collect()
    }

    #[test]
    fn an_address_has_a_quarter_and_a_network_half_and_all_of_it_comes_back() {
        let budget = BodyBudget::new(1_600, 20);
        let first = take(&budget, [192, 0, 2, 1]);
        let network: Vec<_> = (2..5).flat_map(|last| take(&budget, [192, 0, 2, last])).collect();
        assert_eq!((first.len(), network.len()), (40, 40));
        drop((first, network));
        let charged = budget.0.charged.lock();
        assert!(charged.total == 0 && charged.peers.is_empty());
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
        assert!(budget.take([192, 0, 3, 1].into(), 1).is_none());
        drop(whole);
        assert!(budget.take([192, 0, 3, 1].into(), 16).is_some());
    }
}
