//! How many refusals of a key are recorded: enough to see why, and few enough that one reason does not displace others.

use chrono::{DateTime, Utc};
use common::model::KeyPrefix;
use std::collections::HashMap;

/// Maximum number of refusals of a key that are recorded in a minute.
const PER_KEY: u8 = 20;
/// Maximum number of them with the same reason.
const PER_REASON: u8 = 10;
/// Maximum number of keys that are counted at once; those beyond are not recorded until the next minute.
const KEYS_MAX: usize = 10_000;

/// What was recorded in the current minute.
#[derive(Debug, Default)]
pub(super) struct Sampling {
    minute: i64,
    keys: HashMap<KeyPrefix, Vec<(String, u8)>>,
}

impl Sampling {
    /// Whether a refusal at `at` is to be recorded. It counts as recorded.
    pub(super) fn admit(&mut self, key: &KeyPrefix, reason: &str, at: DateTime<Utc>) -> bool {
        let minute = at.timestamp().div_euclid(60);
        if minute != self.minute {
            (self.minute, self.keys) = (minute, HashMap::new());
        }
        if !self.keys.contains_key(key) {
            if self.keys.len() >= KEYS_MAX {
                return false;
            }
            self.keys.insert(key.clone(), Vec::new());
        }
        let Some(counts) = self.keys.get_mut(key) else { return false };
        if counts.iter().map(|(_, count)| count).sum::<u8>() >= PER_KEY {
            return false;
        }
        match counts.iter_mut().find(|(counted, _)| counted == reason) {
            Some((_, count)) if *count >= PER_REASON => false,
            Some((_, count)) => {
                *count += 1;
                true
            }
            None => {
                counts.push((reason.to_owned(), 1));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_767_225_600 + seconds, 0).unwrap()
    }

    fn key(number: usize) -> KeyPrefix {
        KeyPrefix::parse(&format!("ck_{number}")).unwrap()
    }

    #[test]
    fn a_key_has_some_refusals_a_minute_and_one_reason_leaves_room_for_others() {
        let mut sampling = Sampling::default();
        let mut admitted =
            |reason: &str, second| (0..1_000).filter(|_| sampling.admit(&key(1), reason, at(second))).count();
        assert_eq!(admitted("stale", 0), 10);
        assert_eq!(admitted("mismatch", 30), 10);
        assert_eq!(admitted("scope", 59), 0, "the minute's number is used up");
        assert_eq!(admitted("scope", 60), 10);
    }

    #[test]
    fn keys_are_counted_one_by_one_and_their_number_is_bounded() {
        let mut sampling = Sampling::default();
        let admitted =
            (0..KEYS_MAX + 5).filter(|number| sampling.admit(&key(*number), "stale", at(0))).count();
        assert_eq!(admitted, KEYS_MAX);
        assert!(sampling.admit(&key(0), "stale", at(0)), "a counted key is still recorded");
        assert!(sampling.admit(&key(KEYS_MAX + 1), "stale", at(60)));
    }
}
