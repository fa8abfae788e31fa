//! Keys that were looked up, for as long as they are known to be what the database holds (D5).
//!
//! An entry may be used within [`TRUST`] of the moment at which the database last said that nothing had changed, or at
//! which the entry itself was read. So a key revoked anywhere is refused here within that time, whether or not a
//! notification of it arrives, and when the database can't be asked nothing is believed any longer.

use super::key::Key;
use crate::bounded::BoundedMap;
use common::model::KeyPrefix;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long what the database said holds. Below the second of D5, so that the refusal is sent within it.
pub(super) const TRUST: Duration = Duration::from_millis(900);

/// Entries of each kind, in halves. Prefixes that are refused have their own, so that guessing can't push keys out.
const HALF: usize = 5_000;

/// The cache; shared by all requests.
#[derive(Debug)]
pub struct KeyCache {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Grows with each clearing, so that what was read before one isn't put in after it.
    generation: u64,
    /// The revision at which the entries were last found valid.
    revision: Option<i64>,
    /// When that was asked.
    confirmed: Option<Instant>,
    known: BoundedMap<KeyPrefix, (Arc<Key>, Instant)>,
    refused: BoundedMap<KeyPrefix, Refused>,
}

/// A prefix that a request was refused with: nobody's, or that of a key whose request failed its checks. Both are in one
/// map, so that the one is looked up in the database as often as the other (D1).
#[derive(Clone, Copy, Debug)]
struct Refused {
    /// When it was looked up.
    read: Instant,
    is_unknown: bool,
}

/// What the cache says of a prefix.
#[derive(Debug)]
pub(super) enum Cached {
    /// The key of that prefix.
    Key(Arc<Key>),
    /// There is none.
    NoKey,
    /// Ask the database and then [`put`](KeyCache::put) what it says.
    Ask(Ticket),
}

/// When a look-up in the database began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
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
    /// What is known of `prefix` at `now`.
    pub(super) fn get(&self, prefix: &KeyPrefix, now: Instant) -> Cached {
        let mut state = self.state();
        let holds = state.trust(now);
        if let Some((key, _)) = state.known.get(prefix).filter(|(_, read)| holds(*read)) {
            return Cached::Key(Arc::clone(key));
        }
        if state.refused.get(prefix).is_some_and(|refused| refused.is_unknown && holds(refused.read)) {
            return Cached::NoKey;
        }
        Cached::Ask(Ticket { generation: state.generation, begun: now })
    }

    /// Keeps what the database said of `prefix`, unless something changed since the look-up began.
    pub(super) fn put(&self, ticket: Ticket, prefix: &KeyPrefix, key: Option<&Arc<Key>>) {
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
            state.refused.insert(prefix.clone(), Refused { read: ticket.begun, is_unknown: true });
        }
    }

    /// A request with the key of `prefix` was refused. Gives a ticket when the database is to be asked for the key once
    /// more, as it is for a prefix that nobody has: when that was not done lately.
    pub(super) fn ask_again(&self, prefix: &KeyPrefix, now: Instant) -> Option<Ticket> {
        let mut state = self.state();
        let holds = state.trust(now);
        let is_known = state.refused.get(prefix).is_some_and(|refused| holds(refused.read));
        (!is_known).then_some(Ticket { generation: state.generation, begun: now })
    }

    /// The database was asked for a key whose request was refused.
    pub(super) fn asked_again(&self, ticket: Ticket, prefix: &KeyPrefix) {
        let mut state = self.state();
        if state.generation == ticket.generation {
            state.refused.insert(prefix.clone(), Refused { read: ticket.begun, is_unknown: false });
        }
    }

    /// Forgets everything: a key or an agency changed.
    pub(super) fn clear(&self) {
        self.state().clear();
    }

    /// The database, asked at `asked`, said that keys and agencies are at `revision`.
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
    /// Whether what was read at a time is still to be believed at `now`.
    fn trust(&self, now: Instant) -> impl Fn(Instant) -> bool + use<> {
        let confirmed = self.confirmed;
        move |read| now.duration_since(confirmed.map_or(read, |at| at.max(read))) < TRUST
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

    fn ticket(cache: &KeyCache, now: Instant) -> Ticket {
        match cache.get(&prefix(), now) {
            Cached::Ask(ticket) => ticket,
            Cached::Key(_) | Cached::NoKey => panic!("should ask the database"),
        }
    }

    /// A cache that has the key, read at `now` and confirmed then.
    fn filled(now: Instant) -> KeyCache {
        let cache = KeyCache::default();
        cache.confirm(1, now);
        cache.put(ticket(&cache, now), &prefix(), Some(&Arc::new(Key::for_tests())));
        assert!(matches!(cache.get(&prefix(), now), Cached::Key(_)));
        cache
    }

    #[test]
    fn a_key_holds_while_the_database_confirms_it_and_no_longer() {
        let now = Instant::now();
        let cache = filled(now);
        cache.confirm(1, now + TRUST / 2);
        assert!(matches!(cache.get(&prefix(), now + TRUST), Cached::Key(_)));
        ticket(&cache, now + TRUST + TRUST / 2);
    }

    #[test]
    fn without_confirmation_a_key_holds_from_when_it_was_read() {
        let now = Instant::now();
        let cache = filled(now);
        let later = now + 10 * TRUST;
        cache.put(ticket(&cache, later), &prefix(), Some(&Arc::new(Key::for_tests())));
        assert!(matches!(cache.get(&prefix(), later + TRUST / 2), Cached::Key(_)));
        ticket(&cache, later + TRUST);
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
    fn what_was_read_before_a_change_is_not_put_in_after_it() {
        let now = Instant::now();
        let cache = KeyCache::default();
        let before = ticket(&cache, now);
        cache.clear();
        cache.put(before, &prefix(), Some(&Arc::new(Key::for_tests())));
        ticket(&cache, now);
    }

    #[test]
    fn a_prefix_without_a_key_is_remembered_until_it_has_one() {
        let now = Instant::now();
        let cache = KeyCache::default();
        cache.put(ticket(&cache, now), &prefix(), None);
        assert!(matches!(cache.get(&prefix(), now), Cached::NoKey));
        cache.confirm(1, now);
        cache.put(ticket(&cache, now), &prefix(), Some(&Arc::new(Key::for_tests())));
        assert!(matches!(cache.get(&prefix(), now), Cached::Key(_)));
    }

    #[test]
    fn a_refused_key_is_asked_for_as_often_as_a_prefix_without_one() {
        let now = Instant::now();
        let cache = filled(now);
        let again = cache.ask_again(&prefix(), now).expect("the first refusal asks");
        cache.asked_again(again, &prefix());
        assert!(cache.ask_again(&prefix(), now + TRUST / 2).is_none(), "the second doesn't");
        assert!(matches!(cache.get(&prefix(), now), Cached::Key(_)), "it is still a key");
        assert!(cache.ask_again(&prefix(), now + TRUST).is_some());
        cache.clear();
        assert!(cache.ask_again(&prefix(), now).is_some());
        ticket(&cache, now);
    }
}
