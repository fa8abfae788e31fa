//! The slots that this dispatcher holds. Pure.

use crate::outbox::bit;
use crate::slots::Leases;
use crate::store::Lease;
use std::collections::{BTreeMap, HashMap};
use tokio::time::Instant;

/// Slots, and until when they are certain.
#[derive(Debug)]
pub(super) struct HeldSlots {
    slots: BTreeMap<i16, HeldSlot>,
    /// Epochs that were given up, which a renewal under way may still report.
    given_up: HashMap<i16, i64>,
    pub until: Instant,
}

#[derive(Clone, Copy, Debug)]
struct HeldSlot {
    epoch: i64,
    /// It is given up once its attempts are recorded.
    is_closing: bool,
}

/// What a renewal has changed.
#[derive(Debug, Default)]
pub(super) struct Renewal {
    /// Slots to work for from now on, as bits.
    pub opened: u64,
    /// The number of slots that others have taken.
    pub lost: usize,
    /// Leases to be given up once more: the statement that gave them up may have failed.
    pub given_up: Vec<Lease>,
}

impl HeldSlots {
    pub(super) fn new(now: Instant) -> Self {
        Self { slots: BTreeMap::new(), given_up: HashMap::new(), until: now }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The leases of slots that are worked for, by slot.
    pub(super) fn open(&self) -> Vec<Lease> {
        self.slots.keys().filter_map(|slot| self.open_slot(*slot)).collect()
    }

    /// The lease of a slot that is worked for.
    pub(super) fn open_slot(&self, slot: i16) -> Option<Lease> {
        self.slots.get(&slot).filter(|held| !held.is_closing).map(|held| Lease { slot, epoch: held.epoch })
    }

    /// Takes over what a renewal says. `deliveries` are those under way in each slot: of the slots, `excess` are closed that have
    /// the fewest. Nothing new is opened while `is_draining`.
    pub(super) fn renew(
        &mut self, leases: Leases, excess: usize, deliveries: &HashMap<i16, usize>, is_draining: bool,
    ) -> Renewal {
        self.until = leases.until;
        let is_given_up = |lease: &Lease| self.given_up.get(&lease.slot) == Some(&lease.epoch);
        let (given_up, held): (Vec<Lease>, Vec<Lease>) = leases.held.into_iter().partition(is_given_up);
        let held: BTreeMap<i16, i64> = held.iter().map(|lease| (lease.slot, lease.epoch)).collect();
        let before = self.open();
        let count = self.slots.len();
        self.slots.retain(|slot, slot_before| held.get(slot) == Some(&slot_before.epoch));
        let lost = count - self.slots.len();
        for (slot, epoch) in held {
            self.slots.entry(slot).or_insert(HeldSlot { epoch, is_closing: is_draining });
        }
        if !is_draining {
            self.close_excess(excess, deliveries);
        }
        let opened = self.open().into_iter().filter(|lease| !before.contains(lease)).map(|lease| bit(lease.slot));
        Renewal { opened: opened.fold(0, |slots, slot| slots | slot), lost, given_up }
    }

    fn close_excess(&mut self, excess: usize, deliveries: &HashMap<i16, usize>) {
        let load = |slot: &i16| deliveries.get(slot).copied().unwrap_or(0);
        let slots = self.slots.iter().map(|(slot, held)| (!held.is_closing, load(slot), *slot));
        let mut slots: Vec<(bool, usize, i16)> = slots.collect();
        slots.sort_unstable();
        for (index, (_, _, slot)) in slots.into_iter().enumerate() {
            if let Some(held) = self.slots.get_mut(&slot) {
                held.is_closing = index < excess;
            }
        }
    }

    /// Works for no slot any more.
    pub(super) fn close_all(&mut self) {
        self.slots.values_mut().for_each(|held| held.is_closing = true);
    }

    /// Removes the closing slots without deliveries under way; they are to be given up.
    pub(super) fn give_up(&mut self, deliveries: impl FnOnce() -> HashMap<i16, usize>) -> Vec<Lease> {
        if !self.slots.values().any(|held| held.is_closing) {
            return Vec::new();
        }
        let deliveries = deliveries();
        let mut given_up = Vec::new();
        self.slots.retain(|slot, held| {
            let is_done = held.is_closing && !deliveries.contains_key(slot);
            if is_done {
                given_up.push(Lease { slot: *slot, epoch: held.epoch });
            }
            !is_done
        });
        self.given_up.extend(given_up.iter().map(|lease| (lease.slot, lease.epoch)));
        given_up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leases(held: &[(i16, i64)]) -> Leases {
        let held = held.iter().map(|&(slot, epoch)| Lease { slot, epoch }).collect();
        Leases { held, until: Instant::now() }
    }

    #[test]
    fn slots_open_with_their_lease_and_close_once_nothing_is_under_way() {
        let mut slots = HeldSlots::new(Instant::now());
        let busy = HashMap::from([(1, 5)]);
        let renewal = slots.renew(leases(&[(1, 7), (2, 1), (3, 1)]), 0, &busy, false);
        assert_eq!((renewal.opened, renewal.lost), (0b1110, 0));
        let renewal = slots.renew(leases(&[(1, 7), (2, 1), (3, 1)]), 2, &busy, false);
        assert_eq!(renewal.opened, 0);
        assert_eq!(slots.open(), [Lease { slot: 1, epoch: 7 }], "the slot with most deliveries stays");
        assert_eq!(slots.give_up(|| HashMap::from([(1, 5), (3, 1)])), [Lease { slot: 2, epoch: 1 }]);
        // Others end meanwhile, so that the third slot is not in excess any more, and this program is late for the first one.
        let renewal = slots.renew(leases(&[(1, 9), (2, 1), (3, 1)]), 0, &busy, false);
        assert_eq!((renewal.opened, renewal.lost), (0b1010, 1));
        assert_eq!(renewal.given_up, [Lease { slot: 2, epoch: 1 }], "it is still reported as held");
        assert_eq!(slots.open_slot(1), Some(Lease { slot: 1, epoch: 9 }));
        slots.close_all();
        assert_eq!(slots.renew(leases(&[(1, 9), (3, 1), (4, 1)]), 0, &busy, true).opened, 0);
        assert_eq!((slots.open().len(), slots.give_up(HashMap::new).len(), slots.is_empty()), (0, 3, true));
    }
}
