//! Attempts that are not on record yet, so that a second message of one isn't tried beside it.
//!
//! Second messages come from a relay that died before it could mark what it published, and from a connection that broke
//! while the attempt was under way; the same delivery may also come from the outbox. They are settled with the first, not
//! before: until then any of them brings the attempt back after a crash.

use super::origin::Origin;
use common::message::DeliveryMeta;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// A delivery and which of its attempts.
type Key = (Uuid, i16);

/// Open attempts, with the origins of their repeats. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenAttempts(Arc<Mutex<HashMap<Key, Vec<Origin>>>>);

impl OpenAttempts {
    /// Opens the attempt and gives its origin back; keeps the origin when the attempt is open.
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

    /// The attempt is on record, or isn't made: gives the origins of its repeats.
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
