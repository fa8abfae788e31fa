//! Limits failed attempts to sign in.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Failures of one address in a window, after which its further attempts are refused until the window ends.
const FAILURES_MAX: u32 = 10;
const WINDOW: Duration = Duration::from_secs(60);
/// Most addresses that are remembered. When there are more, the one with the oldest window is forgotten.
const ADDRESSES_MAX: usize = 1_024;

/// The failures of the last minute, by the address that the connection came from. Each copy of the console counts by itself.
#[derive(Debug, Default)]
pub(crate) struct SignInLimit(Mutex<HashMap<IpAddr, Failures>>);

#[derive(Clone, Copy, Debug)]
struct Failures {
    since: Instant,
    count: u32,
}

impl SignInLimit {
    /// How long `address` must wait before its next attempt; `None` if it may try now.
    pub(crate) fn wait(&self, address: IpAddr, now: Instant) -> Option<Duration> {
        let failures = *self.failures().get(&address)?;
        let left = WINDOW.checked_sub(now.saturating_duration_since(failures.since))?;
        (failures.count >= FAILURES_MAX && !left.is_zero()).then_some(left)
    }

    /// Counts a failure.
    pub(crate) fn count_failure(&self, address: IpAddr, now: Instant) {
        let mut all = self.failures();
        all.retain(|_, failures| now.saturating_duration_since(failures.since) < WINDOW);
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            let oldest = all.iter().min_by_key(|(_, failures)| failures.since).map(|(address, _)| *address);
            if let Some(oldest) = oldest {
                all.remove(&oldest);
            }
        }
        all.entry(address).or_insert(Failures { since: now, count: 0 }).count += 1;
    }

    fn failures(&self) -> MutexGuard<'_, HashMap<IpAddr, Failures>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(number).into()
    }

    #[test]
    fn failures_are_limited_for_each_address_and_forgotten_after_a_minute() {
        let (limit, now) = (SignInLimit::default(), Instant::now());
        for _ in 0..FAILURES_MAX {
            assert_eq!(limit.wait(address(1), now), None);
            limit.count_failure(address(1), now);
        }
        assert_eq!(limit.wait(address(1), now), Some(WINDOW));
        assert_eq!(limit.wait(address(2), now), None);
        assert_eq!(limit.wait(address(1), now + WINDOW), None);
    }

    #[test]
    fn the_number_of_addresses_is_bounded() {
        let (limit, now) = (SignInLimit::default(), Instant::now());
        for number in 0..2 * ADDRESSES_MAX {
            limit.count_failure(address(u32::try_from(number).unwrap()), now);
        }
        assert_eq!(limit.failures().len(), ADDRESSES_MAX);
    }
}
