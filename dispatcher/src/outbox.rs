//! Which slots may have events in the outbox that are not fanned out. Pure.

use crate::store::{Lease, SlotTurn};
use std::collections::HashMap;
use uuid::Uuid;

/// Slots whose outbox is to be read, and where the next turn of each begins.
#[derive(Debug, Default)]
pub(crate) struct OutboxTurns {
    /// Bits of slots.
    pending: u64,
    /// Bits of slots whose round is under way.
    running: u64,
    after: HashMap<i16, Uuid>,
}

impl OutboxTurns {
    /// Events may have been committed in these slots, given as bits.
    pub(crate) const fn wake(&mut self, slots: u64) {
        self.pending |= slots;
    }

    /// Those of `slots` whose turn it is, each with the tenant after which it begins. They are not pending until something wakes
    /// them, or their round says so.
    pub(crate) fn take(&mut self, slots: Vec<Lease>) -> Vec<(Lease, Uuid)> {
        let mut turns = Vec::new();
        for lease in slots {
            let slot = bit(lease.slot);
            if self.pending & !self.running & slot != 0 {
                self.pending &= !slot;
                self.running |= slot;
                turns.push((lease, self.after.get(&lease.slot).copied().unwrap_or_default()));
            }
        }
        turns
    }

    /// Ends a round of these slots, and notes what it has left.
    pub(crate) fn finish(&mut self, slots: &[Lease], turns: &[SlotTurn]) {
        for lease in slots {
            self.running &= !bit(lease.slot);
        }
        for turn in turns {
            if turn.has_more {
                self.wake(bit(turn.slot));
            }
            self.after.insert(turn.slot, turn.after);
        }
    }
}

/// The bit of a slot.
pub(crate) const fn bit(slot: i16) -> u64 {
    1 << (slot & 63)
}
