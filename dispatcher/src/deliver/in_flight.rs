//! Events of the outbox whose deliveries this program handles. The relay excludes them when it reads the outbox.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// The ids of events in flight. Bounded by the number of direct deliveries and by the recorder's channel: an event stays
/// until all of its deliveries are recorded. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashSet<Uuid>>>);

/// An event in flight, shared by its deliveries.
#[derive(Debug)]
pub(super) struct EventInFlight {
    pub(super) event_id: Uuid,
    /// Deliveries that the recorder has not taken into a batch yet. Only the recorder decrements it.
    unrecorded: AtomicUsize,
}

impl InFlight {
    /// Adds an event with that many deliveries.
    pub(super) fn add(&self, event_id: Uuid, deliveries: usize) -> Arc<EventInFlight> {
        self.ids().insert(event_id);
        Arc::new(EventInFlight { event_id, unrecorded: AtomicUsize::new(deliveries) })
    }

    /// Removes events whose mark as relayed is committed.
    pub(super) fn remove(&self, event_ids: &[Uuid]) {
        let mut ids = self.ids();
        for id in event_ids {
            ids.remove(id);
        }
    }

    /// The ids of all events in flight.
    pub(super) fn list(&self) -> Vec<Uuid> {
        self.ids().iter().copied().collect()
    }

    fn ids(&self) -> MutexGuard<'_, HashSet<Uuid>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventInFlight {
    /// Counts down for a delivery that the recorder takes into a batch, or whose duplicate it has recorded. Returns whether it was
    /// the event's last one.
    pub(super) fn count_down(&self) -> bool {
        self.unrecorded.fetch_sub(1, Ordering::Relaxed) == 1
    }
}
