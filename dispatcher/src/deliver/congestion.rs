//! Tells the relay which subscriptions' lanes are full, and which can take deliveries again.

use super::lanes::PARK_WAIT_MAX;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;
use uuid::Uuid;

/// Subscriptions whose lane in this program is or was full. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Congestion(Arc<Mutex<Sets>>);

#[derive(Debug, Default)]
struct Sets {
    full: HashSet<Uuid>,
    /// Recovered lanes, and when they recovered.
    recovered: HashMap<Uuid, Instant>,
}

impl Congestion {
    /// Subscriptions whose lane is full: their parked deliveries stay parked.
    pub(crate) fn full(&self) -> Vec<Uuid> {
        self.sets().full.iter().copied().collect()
    }

    /// Subscriptions whose lane is no longer full: deliveries that were parked for later may be relayed now. A lane is
    /// remembered for the longest time for which a delivery is parked, because a delivery may be parked by an uncommitted
    /// transaction when its lane recovers.
    pub(crate) fn recovered(&self, now: Instant) -> Vec<Uuid> {
        let mut sets = self.sets();
        sets.recovered.retain(|_, at| now.saturating_duration_since(*at) <= PARK_WAIT_MAX);
        sets.recovered.keys().copied().collect()
    }

    pub(super) fn begin(&self, id: Uuid) {
        let mut sets = self.sets();
        sets.full.insert(id);
        sets.recovered.remove(&id);
    }

    pub(super) fn end(&self, id: Uuid, now: Instant) {
        let mut sets = self.sets();
        if sets.full.remove(&id) {
            sets.recovered.insert(id, now);
        }
    }

    /// Stops tracking a lane: its parked deliveries are relayed when the times until which they were parked have passed.
    pub(super) fn forget(&self, id: Uuid) {
        let mut sets = self.sets();
        sets.full.remove(&id);
        sets.recovered.remove(&id);
    }

    fn sets(&self) -> MutexGuard<'_, Sets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
