//! Which subscriptions have enough to do, as told to the relay.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use uuid::Uuid;

/// Subscriptions whose lane here is full: what is parked for them stays parked. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Congestion(Arc<Mutex<HashSet<Uuid>>>);

impl Congestion {
    /// The subscriptions.
    pub fn subscriptions(&self) -> Vec<Uuid> {
        self.set().iter().copied().collect()
    }

    pub(super) fn begin(&self, id: Uuid) {
        self.set().insert(id);
    }

    pub(super) fn end(&self, id: Uuid) {
        self.set().remove(&id);
    }

    fn set(&self) -> std::sync::MutexGuard<'_, HashSet<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
