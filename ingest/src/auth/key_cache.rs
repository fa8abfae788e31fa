//! A cache of API keys, each used only while it is known to match the database (D5).
//!
//! An entry may be used within [`MAX_STALENESS`] of the last confirmation by the database that no key has changed, or of the time
//! at which the entry itself was read. So a revoked key is refused within that time even if its notification is lost, and
//! while the database is unavailable no entry is used.

use super::key::ApiKey;
use crate::bounded_map::BoundedMap;
use common::model::KeyPrefix;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a confirmation or an entry is valid. Less than the second of D5, so that the refusal is sent within it.
pub(super) const MAX_STALENESS: Duration = Duration::from_millis(900);

/// Half of the capacity of each map. Refused prefixes have their own map, so that guessing cannot evict keys.
const HALF: usize = 5_000;

/// The cache; shared by all requests.
#[derive(Debug)]
pub(crate) struct KeyCache {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Grows with each `clear`, so that a row read before it is not inserted after it.
    generation: u64,
    /// The revision at which the entries were last found valid.
    revision: Option<i64>,
    /// When the database was asked for that revision.
    confirmed: Option<Instant>,
    known: BoundedMap<KeyPrefix, (Arc<ApiKey>, Instant)>,
    refused: BoundedMap<KeyPrefix, RefusedPrefix>,
}

/// The prefix of a refused request: unknown, or of a key whose request failed a check. Both are in one map, so that both
/// are looked up in the database equally often (D1).
#[derive(Clone, Copy, Debug)]
struct RefusedPrefix {
    /// When it was looked up.
    read: Instant,
    is_unknown: bool,
}

/// The cache's result for a prefix.
#[derive(Debug)]
pub(super) enum CacheLookup {
    Found(Arc<ApiKey>),
    NoSuchKey,
    /// Not cached: look the key up in the database and [`put`](KeyCache::put) the result.
    Miss(LookupTicket),
}

/// When a look-up in the database began.
#[derive(Clone, Copy, Debug)]
pub(super) struct LookupTicket {
    generation: u64,
    begun: Instant,
}

impl Default for KeyCache {
    fn default() -> Self {
        let state = State {
            generation: 0,
            revision: None,
            confirmed: None,
            known: BoundedMap::new(HALF),
            refused: BoundedMap::new(HALF),
        };
        Self { state: Mutex::new(state) }
    }
}

impl KeyCache {
    /// Looks `prefix` up in the cache.
    pub(super) fn get(&self, prefix: &KeyPrefix, now: Instant) -> CacheLookup {
        let mut state = self.state();
        let holds = state.freshness_check(now);
        if let Some((key, _)) = state.known.get(prefix).filter(|(_, read)| holds(*read)) {
            return CacheLookup::Found(Arc::clone(key));
        }
        if state.refused.get(prefix).is_some_and(|refused| refused.is_unknown && holds(refused.read)) {
            return CacheLookup::NoSuchKey;
        }
        CacheLookup::Miss(LookupTicket { generation: state.generation, begun: now })
    }

    /// Stores the database's result for `prefix`, unless the cache was cleared since the look-up began.
    pub(super) fn put(&self, ticket: LookupTicket, prefix: &KeyPrefix, key: Option<&Arc<ApiKey>>) {
        let mut state = self.state();
        if state.generation != ticket.generation {
            return;
        }
        if let Some(key) = key {
            if state.refused.get(prefix).is_some_and(|refused| refused.is_unknown) {
                state.refused.remove(prefix);
            }
            state.known.insert(prefix.clone(), (Arc::clone(key), ticket.begun));
        } else {
            state.known.remove(prefix);
            state.refused.insert(prefix.clone(), RefusedPrefix { read: ticket.begun, is_unknown: true });
        }
    }

    /// Whether the database must be asked again for the key of `prefix` when a request with it is refused, which happens as often as
    /// for an unknown prefix.
    pub(super) fn needs_recheck(&self, prefix: &KeyPrefix, now: Instant) -> bool {
        self.begin_recheck(prefix, now).is_some()
    }

    /// The ticket for asking again, if that is still needed.
    pub(super) fn begin_recheck(&self, prefix: &KeyPrefix, now: Instant) -> Option<LookupTicket> {
        let mut state = self.state();
        let holds = state.freshness_check(now);
        let is_recent = state.refused.get(prefix).is_some_and(|refused| holds(refused.read));
        (!is_recent).then_some(LookupTicket { generation: state.generation, begun: now })
    }

    /// Records that the database was asked again for the key of a refused request.
    pub(super) fn finish_recheck(&self, ticket: LookupTicket, prefix: &KeyPrefix) {
        let mut state = self.state();
        if state.generation == ticket.generation {
            state.refused.insert(prefix.clone(), RefusedPrefix { read: ticket.begun, is_unknown: false });
        }
    }

    /// Removes all entries, because a key or a tenant has changed.
    pub(super) fn clear(&self) {
        self.state().clear();
    }

    /// Records that keys and tenants were at `revision` when the database was asked at `asked`.
    pub(super) fn confirm(&self, revision: i64, asked: Instant) {
        let mut state = self.state();
        if state.revision != Some(revision) {
            state.clear();
            state.revision = Some(revision);
        }
        state.confirmed = Some(asked);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Tells whether an entry that was read at a given time may still be used at `now`.
    fn freshness_check(&self, now: Instant) -> impl Fn(Instant) -> bool + use<> {
        let confirmed = self.confirmed;
        move |read| now.duration_since(confirmed.map_or(read, |at| at.max(read))) < MAX_STALENESS
    }

    fn clear(&mut self) {
        self.generation += 1;
        self.known.clear();
        self.refused.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix() -> KeyPrefix {
        KeyPrefix::parse("ck_1").unwrap()
    }

    fn ticket(cache: &KeyCache, now: Instant) -> LookupTicket {
        match cache.get(&prefix(), now) {
            CacheLookup::Miss(ticket) => ticket,
            CacheLookup::Found(_) | CacheLookup::NoSuchKey => panic!("should ask the database"),
        }
    }

    /// A cache that has the key, read at `now` and confirmed then.
    fn filled(now: Instant) -> KeyCache {
        let cache = KeyCache::default();
        cache.confirm(1, now);
        cache.put(ticket(&cache, now), &prefix(), Some(&Arc::new(ApiKey::for_tests())));
        assert!(matches!(cache.get(&prefix(), now), CacheLookup::Found(_)));
        cache
    }

    #[test]
    fn a_key_is_used_while_the_database_confirms_it_and_no_longer() {
        let now = Instant::now();
        let cache = filled(now);
        cache.confirm(1, now + MAX_STALENESS / 2);
        assert!(matches!(cache.get(&prefix(), now + MAX_STALENESS), CacheLookup::Found(_)));
        ticket(&cache, now + MAX_STALENESS + MAX_STALENESS / 2);
    }

    #[test]
    fn without_confirmation_a_key_is_used_for_a_limited_time_after_it_was_read() {
        let now = Instant::now();
        let cache = filled(now);
        let later = now + 10 * MAX_STALENESS;
        cache.put(ticket(&cache, later), &prefix(), Some(&Arc::new(ApiKey::for_tests())));
        assert!(matches!(cache.get(&prefix(), later + MAX_STALENESS / 2), CacheLookup::Found(_)));
        ticket(&cache, later + MAX_STALENESS);
    }

    #[test]
    fn a_change_clears_whether_it_is_notified_or_only_seen_in_the_revision() {
        let now = Instant::now();
        let cache = filled(now);
        cache.clear();
        ticket(&cache, now);
        let cache = filled(now);
        cache.confirm(2, now);
        ticket(&cache, now);
    }

    #[test]
    fn a_row_read_before_a_change_is_not_cached_after_it() {
        let now = Instant::now();
        let cache = KeyCache::default();
        let before = ticket(&cache, now);
        cache.clear();
        cache.put(before, &prefix(), Some(&Arc::new(ApiKey::for_tests())));
        ticket(&cache, now);
    }

    #[test]
    fn a_prefix_without_a_key_is_remembered_until_it_has_one() {
        let now = Instant::now();
        let cache = KeyCache::default();
        cache.put(ticket(&cache, now), &prefix(), None);
        assert!(matches!(cache.get(&prefix(), now), CacheLookup::NoSuchKey));
        cache.confirm(1, now);
        cache.put(ticket(&cache, now), &prefix(), Some(&Arc::new(ApiKey::for_tests())));
        assert!(matches!(cache.get(&prefix(), now), CacheLookup::Found(_)));
    }

    #[test]
    fn a_refused_key_is_asked_for_as_often_as_a_prefix_without_one() {
        let now = Instant::now();
        let cache = filled(now);
        let again = cache.begin_recheck(&prefix(), now).expect("the first refusal asks");
        cache.finish_recheck(again, &prefix());
        assert!(cache.begin_recheck(&prefix(), now + MAX_STALENESS / 2).is_none(), "the second does not");
        assert!(matches!(cache.get(&prefix(), now), CacheLookup::Found(_)), "it is still a key");
        assert!(cache.begin_recheck(&prefix(), now + MAX_STALENESS).is_some());
        cache.clear();
        assert!(cache.begin_recheck(&prefix(), now).is_some());
        ticket(&cache, now);
    }
}
