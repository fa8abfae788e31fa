//! Open attempts, which are not recorded yet: a duplicate message of one is not attempted concurrently.
//!
//! Duplicates come from a relay that crashed before it marked what it had published, and from a connection that was lost during
//! the attempt; the same delivery may also come from the outbox. They are settled together with the first, because until then
//! any of them may be needed to repeat the attempt after a crash.

use super::origin::Origin;
use common::message::DeliveryMeta;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// A delivery's id and the number of the attempt.
type Key = (Uuid, i16);

/// Open attempts, with the origins of their duplicates. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenAttempts(Arc<Mutex<HashMap<Key, Vec<Origin>>>>);

impl OpenAttempts {
    /// Opens the attempt and returns its origin; if it is open already, stores the origin as a duplicate and returns `None`.
    pub(super) fn begin(&self, meta: &DeliveryMeta, origin: Origin) -> Option<Origin> {
        match self.attempts().entry(key(meta)) {
            Entry::Vacant(vacant) => {
                vacant.insert(Vec::new());
                Some(origin)
            }
            Entry::Occupied(mut occupied) => {
                occupied.get_mut().push(origin);
                None
            }
        }
    }

    /// Closes an attempt that is recorded or was not made; returns the origins of its duplicates.
    pub(super) fn end(&self, meta: &DeliveryMeta) -> Vec<Origin> {
        self.attempts().remove(&key(meta)).unwrap_or_default()
    }

    fn attempts(&self) -> MutexGuard<'_, HashMap<Key, Vec<Origin>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn key(meta: &DeliveryMeta) -> Key {
    (meta.delivery_id, meta.attempt)
}
