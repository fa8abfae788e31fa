//! When the secrets of a key were last used, and whether that is long ago.

use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use serde::Serialize;

/// A secret that was not used for this long is safe to revoke.
const UNUSED_FOR: TimeDelta = TimeDelta::days(7);

/// The last use of a secret.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretUse {
    /// Whether it is the current secret, not the one before it.
    pub current: bool,
    /// RFC 3339, UTC, with an error of about a minute; null if it was never used.
    pub last_used_at: Option<String>,
    /// The end of the overlap for an old secret, RFC 3339, UTC; null for the current one.
    pub valid_until: Option<String>,
    /// Whether it was not used for seven days.
    pub safe_to_revoke: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct UseRow {
    pub(crate) last_used_at: Option<DateTime<Utc>>,
    /// Since when the secret exists.
    pub(crate) usable_since: DateTime<Utc>,
}

impl UseRow {
    /// Whether the secret was not used for [`UNUSED_FOR`]; never of one that is newer.
    pub(crate) fn is_safe_to_revoke(self, now: DateTime<Utc>) -> bool {
        let last = self.last_used_at.map_or(self.usable_since, |at| at.max(self.usable_since));
        now.signed_duration_since(last) >= UNUSED_FOR
    }

    /// The use of the current secret, or of the one before it, which is valid until a time.
    pub(crate) fn of_secret(self, valid_until: Option<DateTime<Utc>>, now: DateTime<Utc>) -> SecretUse {
        SecretUse {
            current: valid_until.is_none(),
            last_used_at: self.last_used_at.map(clock::to_text),
            valid_until: valid_until.map(clock::to_text),
            safe_to_revoke: self.is_safe_to_revoke(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_safe_to_revoke_after_seven_days_without_use() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let days = |count| now - TimeDelta::days(count);
        let is_safe = |last_used_at, usable_since| UseRow { last_used_at, usable_since }.is_safe_to_revoke(now);
        assert!(is_safe(Some(days(7)), days(30)));
        assert!(!is_safe(Some(days(6)), days(30)));
        assert!(is_safe(None, days(7)));
        assert!(!is_safe(None, days(6)), "it is new");
        assert!(!is_safe(Some(days(8)), days(6)), "the use was of the secret before it");
    }
}
