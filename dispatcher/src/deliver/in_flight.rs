//! Events of the outbox whose deliveries are handled by this program. The relay leaves them out when it reads.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// The ids of events in flight. Bounded by the deliveries that may be direct and by the ledger's channel: an event stays
/// for as long as one of its deliveries is there. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<Uuid>>>);

/// An event in flight, shared by its deliveries.
#[derive(Debug)]
pub(super) struct EventInFlight {
    pub(super) event_id: Uuid,
    /// Deliveries that are not on record yet. Only the ledger counts down.
    unrecorded: AtomicUsize,
}

impl InFlight {
    /// Adds an event with that many deliveries.
    pub(super) fn add(&self, event_id: Uuid, deliveries: usize) -> Arc<EventInFlight> {
        self.ids().insert(event_id);
        Arc::new(EventInFlight { event_id, unrecorded: AtomicUsize::new(deliveries) })
    }

    /// The events are marked as relayed, and that is committed.
    pub(super) fn remove(&self, event_ids: &[Uuid]) {
        let mut ids = self.ids();
        for id in event_ids {
            ids.remove(id);
        }
    }

    /// All of them.
    pub(super) fn list(&self) -> Vec<Uuid> {
        self.ids().iter().copied().collect()
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventInFlight {
    /// One of its deliveries goes on record; whether it is the last one.
    pub(super) fn record_one(&self) -> bool {
        self.unrecorded.fetch_sub(1, Ordering::Relaxed) == 1
    }
}
