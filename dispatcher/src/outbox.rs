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
    /// Bits of slots whose next round is theirs alone, because one of several failed.
    alone: u64,
    after: HashMap<i16, Uuid>,
}

impl OutboxTurns {
    /// Events may have been committed in these slots, given as bits.
    pub(crate) const fn wake(&mut self, slots: u64) {
        self.pending |= slots;
    }

    /// Those of `slots` whose turn it is, each with the tenant after which it begins, and whether it is one that is alone. They are
    /// not pending until something wakes them, or their round says so.
    pub(crate) fn take(&mut self, mut slots: Vec<Lease>) -> (Vec<(Lease, Uuid)>, bool) {
        let ready = self.pending & !self.running;
        slots.retain(|lease| ready & bit(lease.slot) != 0);
        let (alone, mut taken): (Vec<_>, Vec<_>) =
            slots.into_iter().partition(|lease| self.alone & bit(lease.slot) != 0);
        let is_alone = taken.is_empty();
        if is_alone {
            taken.extend(alone.first());
        }
        let all = taken.iter().fold(0, |all, lease| all | bit(lease.slot));
        self.pending &= !all;
        self.running |= all;
        let after = |lease: Lease| (lease, self.after.get(&lease.slot).copied().unwrap_or_default());
        (taken.into_iter().map(after).collect(), is_alone)
    }

    /// Ends a round that failed and would fail again: the next one of each slot is alone.
    pub(crate) fn separate(&mut self, slots: &[Lease]) {
        self.finish(slots, &[]);
        let all = slots.iter().fold(0, |all, lease| all | bit(lease.slot));
        self.alone |= all;
        self.wake(all);
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
            self.alone &= !bit(turn.slot);
            self.after.insert(turn.slot, turn.after);
        }
    }
}

/// The bit of a slot.
pub(crate) const fn bit(slot: i16) -> u64 {
    1 << (slot & 63)
}
