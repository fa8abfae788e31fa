//! Which subscriptions have enough to do, and which could do with more, as told to the relay.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// Subscriptions whose lane here is or was full. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Congestion(Arc<Mutex<Sets>>);

#[derive(Debug, Default)]
struct Sets {
    full: HashSet<Uuid>,
    recovered: HashSet<Uuid>,
}

impl Congestion {
    /// Subscriptions whose lane is full: what is parked for them stays parked.
    pub fn full(&self) -> Vec<Uuid> {
        self.sets().full.iter().copied().collect()
    }

    /// Subscriptions whose lane was full and isn't any more: what was parked for later may come now.
    pub fn recovered(&self) -> Vec<Uuid> {
        self.sets().recovered.iter().copied().collect()
    }

    /// Nothing is parked for these any more.
    pub fn is_over(&self, ids: impl IntoIterator<Item = Uuid>) {
        let mut sets = self.sets();
        for id in ids {
            sets.recovered.remove(&id);
        }
    }

    pub(super) fn begin(&self, id: Uuid) {
        let mut sets = self.sets();
        sets.full.insert(id);
        sets.recovered.remove(&id);
    }

    pub(super) fn end(&self, id: Uuid) {
        let mut sets = self.sets();
        if sets.full.remove(&id) {
            sets.recovered.insert(id);
        }
    }

    /// Nothing is known of its lane any more: it is like any other.
    pub(super) fn clear(&self, id: Uuid) {
        self.sets().full.remove(&id);
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
