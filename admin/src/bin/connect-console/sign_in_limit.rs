//! Limits attempts to sign in.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Attempts of one address or person in a window, after which further ones are refused until the window ends.
const ATTEMPTS_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Maximum number of addresses or people that are remembered. When there are more, the one with the oldest window is forgotten.
const KEYS_MAX: usize = 1_024;

/// The attempts of the last minute, by `K`: failed ones by the address that the connection came from, or successful ones by person,
/// because each of them adds an audit record. Each copy of the console counts by itself.
#[derive(Debug)]
pub(crate) struct SignInLimit<K>(Mutex<HashMap<K, Attempts>>);

#[derive(Clone, Copy, Debug)]
struct Attempts {
    since: Instant,
    count: u32,
}

impl<K> Default for SignInLimit<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> SignInLimit<K> {
    /// How long `key` must wait before its next attempt; `None` if it may try now.
    pub(crate) fn wait(&self, key: &K, now: Instant) -> Option<Duration> {
        let attempts = *self.attempts().get(key)?;
        let left = WINDOW.checked_sub(now.saturating_duration_since(attempts.since))?;
        (attempts.count >= ATTEMPTS_MAX && !left.is_zero()).then_some(left)
    }

    /// Counts an attempt.
    pub(crate) fn count(&self, key: K, now: Instant) {
        let mut all = self.attempts();
        all.retain(|_, attempts| now.saturating_duration_since(attempts.since) < WINDOW);
        if all.len() >= KEYS_MAX && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, attempts)| attempts.since).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        all.entry(key).or_insert(Attempts { since: now, count: 0 }).count += 1;
    }

    fn attempts(&self) -> MutexGuard<'_, HashMap<K, Attempts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn failures_are_limited_for_each_address_and_forgotten_after_a_minute() {
        let (limit, now) = (SignInLimit::default(), Instant::now());
        for _ in 0..ATTEMPTS_MAX {
            assert_eq!(limit.wait(&address(1), now), None);
            limit.count(address(1), now);
        }
        assert_eq!(limit.wait(&address(1), now), Some(WINDOW));
        assert_eq!(limit.wait(&address(2), now), None);
        assert_eq!(limit.wait(&address(1), now + WINDOW), None);
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let (limit, now) = (SignInLimit::default(), Instant::now());
        for number in 0..2 * KEYS_MAX {
            limit.count(address(u32::try_from(number).unwrap()), now);
        }
        assert_eq!(limit.attempts().len(), KEYS_MAX);
    }
}
