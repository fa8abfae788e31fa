//! Attempts that are not recorded yet: a duplicate message of one is not attempted concurrently.
//!
//! Duplicates come from a relay that crashed before it marked what it had published, and from a connection that was lost during
//! the attempt; the same delivery may also come from the outbox. They are acknowledged after the first is recorded, because
//! until then any of them may be needed to repeat the attempt after a crash.

use super::source::DeliverySource;
use common::message::DeliveryMeta;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// A delivery's id and the number of the attempt.
type Key = (Uuid, i16);

/// Attempts that are not recorded yet, with the sources of their duplicates. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct UnrecordedAttempts(Arc<Mutex<HashMap<Key, Vec<DeliverySource>>>>);

impl UnrecordedAttempts {
    /// Begins to track the attempt and returns its source; if it is tracked already, stores the source as a duplicate and returns
    /// `None`.
    pub(super) fn begin(&self, meta: &DeliveryMeta, source: DeliverySource) -> Option<DeliverySource> {
        match self.attempts().entry(key(meta)) {
            Entry::Vacant(vacant) => {
                vacant.insert(Vec::new());
                Some(source)
            }
            Entry::Occupied(mut occupied) => {
                occupied.get_mut().push(source);
                None
            }
        }
    }

    /// Stops tracking an attempt that is recorded or was not made; returns the sources of its duplicates.
    pub(super) fn end(&self, meta: &DeliveryMeta) -> Vec<DeliverySource> {
        self.attempts().remove(&key(meta)).unwrap_or_default()
    }

    fn attempts(&self) -> MutexGuard<'_, HashMap<Key, Vec<DeliverySource>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn key(meta: &DeliveryMeta) -> Key {
    (meta.delivery_id, meta.attempt)
}
