//! Signatures that are known to be used. What the replay store refused once it refuses for as long as the signature is
//! fresh, so a second round trip could say nothing else: a replay that is repeated costs no database.
//!
//! Nothing is ever admitted because of what is here or isn't: what is not known is looked up.

use super::replay_group::Entry;
use crate::bounded::BoundedMap;
use common::model::KeyPrefix;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Signatures that are remembered, in halves: about 3 MB at most in all.
const HALF: usize = 8_192;

/// The signatures, by MAC. Each is a replay for every request that comes without an `Idempotency-Key`.
#[derive(Debug)]
pub(super) struct UsedSignatures(Mutex<BoundedMap<[u8; 32], (KeyPrefix, i64)>>);

impl Default for UsedSignatures {
    fn default() -> Self {
        Self(Mutex::new(BoundedMap::new(HALF)))
    }
}

impl UsedSignatures {
    /// Whether the signature is known to be used. A POST with an `Idempotency-Key` may still pass (D3), so of those
    /// nothing is known.
    pub(super) fn contains(&self, entry: &Entry) -> bool {
        entry.idempotency_key.is_none()
            && self
                .lock()
                .get(&entry.mac)
                .is_some_and(|(key, at)| *key == entry.key && *at == entry.signed_at)
    }

    /// Remembers a signature that was refused as a replay.
    pub(super) fn insert(&self, entry: &Entry) {
        self.lock().insert(entry.mac, (entry.key.clone(), entry.signed_at));
    }

    fn lock(&self) -> MutexGuard<'_, BoundedMap<[u8; 32], (KeyPrefix, i64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::IdempotencyKey;
    use common::model::TenantId;

    #[test]
    fn only_the_same_signature_without_an_idempotency_key_is_known() {
        let used = UsedSignatures::default();
        let entry = Entry {
            tenant: TenantId(uuid::Uuid::from_u128(1)),
            key: KeyPrefix::parse("ck_1").unwrap(),
            mac: [7; 32],
            signed_at: 1_767_225_600,
            idempotency_key: None,
        };
        assert!(!used.contains(&entry));
        used.insert(&entry);
        assert!(used.contains(&entry));
        for other in [
            Entry { mac: [8; 32], ..entry.clone() },
            Entry { key: KeyPrefix::parse("ck_2").unwrap(), ..entry.clone() },
            Entry { signed_at: 1, ..entry.clone() },
            Entry { idempotency_key: IdempotencyKey::parse("k"), ..entry.clone() },
        ] {
            assert!(!used.contains(&other), "{other:?}");
        }
    }
}
