//! Limits the records reads per second of a key (D23).

use crate::bounded_map::BoundedMap;
use crate::refusal::Refusal;
use common::model::KeyPrefix;
use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// Half of the capacity. An evicted key starts again with a full bucket; a key is evicted only after thousands of
/// other keys were used.
const HALF: usize = 5_000;
/// The size of a bucket: the reads of one second.
const BURST: Duration = Duration::from_secs(1);

/// A token bucket for each key.
#[derive(Debug)]
pub(crate) struct ReadLimit {
    /// When the bucket of a key will be full again.
    full_at: Mutex<BoundedMap<KeyPrefix, Instant>>,
}

impl Default for ReadLimit {
    fn default() -> Self {
        Self { full_at: Mutex::new(BoundedMap::new(HALF)) }
    }
}

impl ReadLimit {
    /// Whether a read of `key` would be counted at `now`.
    pub(crate) fn would_admit(&self, key: &KeyPrefix, per_second: u32, now: Instant) -> bool {
        let mut buckets = self.full_at.lock();
        next(buckets.get(key), per_second, now).is_some()
    }

    /// Counts a read of `key` at `now`; 429, without counting it, when `per_second` is reached.
    pub(crate) fn take(&self, key: &KeyPrefix, per_second: u32, now: Instant) -> Result<(), Refusal> {
        let mut buckets = self.full_at.lock();
        let next = next(buckets.get(key), per_second, now).ok_or(Refusal::RateLimited)?;
        buckets.insert(key.clone(), next);
        Ok(())
    }
}

/// When a bucket will be full again after one more read; `None` when it is empty.
fn next(full_at: Option<&Instant>, per_second: u32, now: Instant) -> Option<Instant> {
    let next = full_at.map_or(now, |at| now.max(*at)) + BURST / per_second.max(1);
    (next <= now + BURST).then_some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> KeyPrefix {
        KeyPrefix::parse(text).unwrap()
    }

    /// How many of a hundred reads at `now` pass.
    fn passing(limit: &ReadLimit, prefix: &str, per_second: u32, now: Instant) -> usize {
        (0..100).filter(|_| limit.take(&key(prefix), per_second, now).is_ok()).count()
    }

    #[test]
    fn a_key_has_its_reads_per_second_and_they_are_refilled_evenly() {
        let (limit, start) = (ReadLimit::default(), Instant::now());
        assert_eq!(passing(&limit, "ck_1", 10, start), 10);
        assert_eq!(passing(&limit, "ck_1", 10, start + Duration::from_millis(99)), 0);
        assert_eq!(passing(&limit, "ck_1", 10, start + Duration::from_millis(300)), 3);
        assert_eq!(passing(&limit, "ck_1", 10, start + Duration::from_secs(60)), 10);
    }

    #[test]
    fn asking_counts_nothing_and_says_what_counting_would() {
        let (limit, now) = (ReadLimit::default(), Instant::now());
        for left in [3, 2, 1, 0] {
            assert!((0..100).all(|_| limit.would_admit(&key("ck_1"), 3, now) == (left > 0)), "{left}");
            assert_eq!(limit.take(&key("ck_1"), 3, now).is_ok(), left > 0, "{left}");
        }
    }

    #[test]
    fn each_key_has_its_own() {
        let (limit, now) = (ReadLimit::default(), Instant::now());
        assert_eq!(passing(&limit, "ck_1", 3, now), 3);
        assert_eq!(passing(&limit, "ck_2", 7, now), 7);
        assert!(matches!(limit.take(&key("ck_1"), 3, now), Err(Refusal::RateLimited)));
    }
}
