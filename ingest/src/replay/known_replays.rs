//! Remembers signatures that were refused as replays. The replay store would refuse them again for as long as they are
//! fresh, so a repeated replay costs no round trip to the database.
//!
//! Nothing is ever admitted because of this cache: a signature that it does not contain is looked up.

use crate::bounded_map::BoundedMap;
use crate::store::replay_entries::ReplayEntry;
use common::model::KeyPrefix;
use parking_lot::Mutex;

/// Half of the capacity. All entries together take about 3 MB at most.
const HALF: usize = 8_192;

/// The signatures, by MAC. Each is a replay for every request that comes without an `Idempotency-Key`.
#[derive(Debug)]
pub(super) struct KnownReplays(Mutex<BoundedMap<[u8; 32], (KeyPrefix, i64)>>);

impl Default for KnownReplays {
    fn default() -> Self {
        Self(Mutex::new(BoundedMap::new(HALF)))
    }
}

impl KnownReplays {
    /// Whether the signature was refused as a replay before. Always false for a POST with an `Idempotency-Key`, which may still pass
    /// (D3).
    pub(super) fn contains(&self, entry: &ReplayEntry) -> bool {
        entry.idempotency_key.is_none()
            && self.0.lock().get(&entry.mac).is_some_and(|(key, at)| *key == entry.key && *at == entry.signed_at)
    }

    /// Remembers a signature that was refused as a replay.
    pub(super) fn insert(&self, entry: &ReplayEntry) {
        self.0.lock().insert(entry.mac, (entry.key.clone(), entry.signed_at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::replay_entries::testing::entry;

    #[test]
    fn beyond_the_bound_those_that_were_not_used_lately_are_forgotten_and_looked_up_again() {
        let known = KnownReplays::default();
        let count = 3 * HALF as u64;
        for number in 0..count {
            known.insert(&entry(number));
            assert!(known.contains(&entry(0)), "it is used all the time");
        }
        assert!(!known.contains(&entry(1)));
        assert!(known.contains(&entry(count - 1)));
    }

    #[test]
    fn only_the_same_signature_without_an_idempotency_key_is_known() {
        let known = KnownReplays::default();
        let entry = entry(7);
        assert!(!known.contains(&entry));
        known.insert(&entry);
        assert!(known.contains(&entry));
        for other in [
            ReplayEntry { mac: [8; 32], ..entry.clone() },
            ReplayEntry { key: KeyPrefix::parse("ck_2").unwrap(), ..entry.clone() },
            ReplayEntry { signed_at: 1, ..entry.clone() },
            ReplayEntry { idempotency_key: Some("k".to_owned()), ..entry.clone() },
        ] {
            assert!(!known.contains(&other), "{other:?}");
        }
    }
}
