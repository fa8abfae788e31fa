//! Which slots may have events in the outbox that are not fanned out. Pure.

use crate::store::SlotTurn;
use std::collections::HashMap;
use uuid::Uuid;

/// Slots whose outbox is to be read, and where the next turn of each begins.
#[derive(Debug, Default)]
pub(crate) struct OutboxTurns {
    /// Bits of slots.
    pending: u64,
    after: HashMap<i16, Uuid>,
}

impl OutboxTurns {
    /// Events may have been committed in these slots, given as bits.
    pub(crate) const fn wake(&mut self, slots: u64) {
        self.pending |= slots;
    }

    /// Those of `slots` whose turn it is, each with the tenant after which it begins. They are not pending until something wakes
    /// them, or their round says so.
    pub(crate) fn take(&mut self, slots: impl Iterator<Item = i16>) -> Vec<(i16, Uuid)> {
        let due: Vec<i16> = slots.filter(|slot| self.pending & bit(*slot) != 0).collect();
        let after = |slot: i16| self.after.get(&slot).copied().unwrap_or_default();
        due.into_iter()
            .map(|slot| {
                self.pending &= !bit(slot);
                (slot, after(slot))
            })
            .collect()
    }

    /// Notes what a round has left.
    pub(crate) fn finish(&mut self, turns: &[SlotTurn]) {
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
