//! Attempts that are not on record yet, so that a second message of one isn't tried beside it.
//!
//! Second messages come from a relay that died before it could mark what it published, and from a connection that broke
//! while the attempt was under way. They are concluded with the first, not before: until then any of them brings the
//! attempt back after a crash.

use common::broker::Receipt;
use common::message::DeliveryMeta;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;

/// A delivery and which of its attempts.
type Key = (Uuid, i16);

/// Open attempts, with the receipts of their further messages. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct OpenAttempts(Arc<Mutex<HashMap<Key, Vec<Receipt>>>>);

impl OpenAttempts {
    /// Opens the attempt that a message stands for and gives its receipt back; keeps it when the attempt is open.
    pub(super) fn begin(&self, meta: &DeliveryMeta, receipt: Receipt) -> Option<Receipt> {
        match self.attempts().entry(key(meta)) {
            Entry::Vacant(vacant) => {
                vacant.insert(Vec::new());
                Some(receipt)
            }
            Entry::Occupied(mut occupied) => {
                occupied.get_mut().push(receipt);
                None
            }
        }
    }

    /// The attempt is on record, or isn't made: gives the receipts of its further messages.
    pub(super) fn end(&self, meta: &DeliveryMeta) -> Vec<Receipt> {
        self.attempts().remove(&key(meta)).unwrap_or_default()
    }

    fn attempts(&self) -> MutexGuard<'_, HashMap<Key, Vec<Receipt>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const fn key(meta: &DeliveryMeta) -> Key {
    (meta.delivery_id, meta.attempt)
}
