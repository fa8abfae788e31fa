//! Limits attempts to sign in.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

/// Attempts with one key in a window, after which further ones are refused until the window ends.
const ATTEMPTS_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of keys that are remembered. When there are more, the one with the oldest window is forgotten.
const KEYS_MAX: usize = 1_024;

/// The attempts of the last minute by key: a link, the state of a sign-in at the provider, or a person whose identity was verified.
/// Nobody can use up the attempts of somebody else, which they could if addresses were counted: behind a proxy or in an office
/// many people share one. Each copy of the console counts by itself.
#[derive(Debug, Default)]
pub(crate) struct SignInLimit {
    /// By the hash of the key, which may be long.
    attempts: Mutex<HashMap<u64, Attempts>>,
    hasher: RandomState,
}

#[derive(Clone, Copy, Debug)]
struct Attempts {
    since: Instant,
    count: u32,
}

impl SignInLimit {
    /// How long `key` must wait before its next attempt; `None` if it may try now.
    pub(crate) fn wait(&self, key: &str, now: Instant) -> Option<Duration> {
        let attempts = *self.attempts.lock().get(&self.hasher.hash_one(key))?;
        let left = WINDOW.checked_sub(now.saturating_duration_since(attempts.since))?;
        (attempts.count >= ATTEMPTS_MAX && !left.is_zero()).then_some(left)
    }

    /// Counts an attempt.
    pub(crate) fn count(&self, key: &str, now: Instant) {
        let (key, mut all) = (self.hasher.hash_one(key), self.attempts.lock());
        all.retain(|_, attempts| now.saturating_duration_since(attempts.since) < WINDOW);
        if all.len() >= KEYS_MAX && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, attempts)| attempts.since).map(|(key, _)| *key);
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        all.entry(key).or_insert(Attempts { since: now, count: 0 }).count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_limited_for_each_key_and_forgotten_after_a_minute() {
        let (limit, now) = (SignInLimit::default(), Instant::now());
        for _ in 0..ATTEMPTS_MAX {
            assert_eq!(limit.wait("one", now), None);
            limit.count("one", now);
        }
        assert_eq!(limit.wait("one", now), Some(WINDOW));
        assert_eq!(limit.wait("other", now), None);
        assert_eq!(limit.wait("one", now + WINDOW), None);
    }

    #[test]
    fn the_number_of_keys_is_bounded() {
        let (limit, now) = (SignInLimit::default(), Instant::now());
        for number in 0..2 * KEYS_MAX {
            limit.count(&number.to_string(), now);
        }
        assert_eq!(limit.attempts.lock().len(), KEYS_MAX);
    }
}
