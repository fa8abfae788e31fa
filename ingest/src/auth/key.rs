//! An API key as authentication needs it.

use super::failure::AuthFailure;
use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::sealed::Secret;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// An API key with its tenant. The secrets are redacted in `Debug`.
#[derive(Debug)]
pub(crate) struct ApiKey {
    /// The tenant, scopes and origin of requests with this key.
    pub(crate) caller: Arc<Caller>,
    /// The secret of its signatures.
    pub(crate) secret: Secret,
    /// Counts the secrets that the key has had, from 1 on.
    pub(crate) secret_number: i32,
    /// The secret before the current one, while both verify (D33).
    pub(crate) old_secret: Option<OldSecret>,
    /// The minutes in which uses of its secrets were last noted.
    pub(super) noted_minutes: NotedMinutes,
    /// The time from which it is refused.
    pub(crate) expires_at: Option<DateTime<Utc>>,
    pub(crate) is_revoked: bool,
    /// Reads that it may do per second (D23).
    pub(crate) reads_per_second: u32,
}

/// The secret before the last rotation.
#[derive(Debug)]
pub(crate) struct OldSecret {
    pub(crate) secret: Secret,
    /// The time from which it is refused.
    pub(crate) until: DateTime<Utc>,
}

/// The minute in which the use of each secret of a key was last noted, so that most requests do not touch the notes.
#[derive(Debug, Default)]
pub(super) struct NotedMinutes([AtomicI64; 2]);

impl NotedMinutes {
    /// Whether this is the first use of the secret in the minute of `now`.
    pub(super) fn is_first(&self, secret: SecretKind, now: DateTime<Utc>) -> bool {
        // Never 0, which is the initial value.
        let minute = now.timestamp().div_euclid(60).max(1);
        let noted = &self.0[secret as usize];
        // Reading first keeps the cache line shared: this is called for every request.
        noted.load(Ordering::Relaxed) != minute && noted.swap(minute, Ordering::Relaxed) != minute
    }
}

/// One of the two secrets that a key can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretKind {
    Current,
    Old,
}

impl ApiKey {
    /// The old secret, if it may be used at `now`.
    pub(super) fn old_secret(&self, now: DateTime<Utc>) -> Option<&Secret> {
        self.old_secret.as_ref().filter(|old| now < old.until).map(|old| &old.secret)
    }

    /// The number of one of its secrets.
    pub(super) const fn number_of(&self, secret: SecretKind) -> i32 {
        match secret {
            SecretKind::Current => self.secret_number,
            SecretKind::Old => self.secret_number - 1,
        }
    }

    /// Whether the secret with this number may be used at `now` (D33).
    pub(super) fn check_secret(&self, number: i32, now: DateTime<Utc>) -> Result<(), AuthFailure> {
        let is_old = || number == self.number_of(SecretKind::Old) && self.old_secret(now).is_some();
        if number == self.secret_number || is_old() { Ok(()) } else { Err(AuthFailure::Mismatch) }
    }

    /// Whether the key may be used at `now` (D1, step 2).
    pub(crate) fn check_active(&self, now: DateTime<Utc>) -> Result<(), AuthFailure> {
        if self.is_revoked {
            return Err(AuthFailure::RevokedKey);
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(AuthFailure::ExpiredKey);
        }
        Ok(())
    }
}

#[cfg(test)]
impl ApiKey {
    /// A key of the tenant `acme` that may send events, and signs with `s3cret`.
    pub(crate) fn for_tests() -> Self {
        use common::model::{KeyPrefix, Scopes, TenantId};
        let caller = Caller {
            tenant_id: TenantId(uuid::Uuid::from_u128(1)),
            tenant: "acme".to_owned(),
            key: KeyPrefix::parse("ck_1").unwrap(),
            scopes: Scopes::parse(&["events:ingest"]).unwrap(),
            origin: None,
        };
        Self {
            caller: Arc::new(caller),
            secret: Secret::new("s3cret".to_owned()),
            secret_number: 1,
            old_secret: None,
            noted_minutes: NotedMinutes::default(),
            expires_at: None,
            is_revoked: false,
            reads_per_second: 100,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_refused_once_revoked_and_from_its_expiry_on() {
        let now = DateTime::from_timestamp(1_767_225_600, 0).unwrap();
        let key = ApiKey { expires_at: Some(now), ..ApiKey::for_tests() };
        assert_eq!(key.check_active(now - chrono::TimeDelta::milliseconds(1)), Ok(()));
        assert_eq!(key.check_active(now), Err(AuthFailure::ExpiredKey));
        let revoked = ApiKey { is_revoked: true, ..key };
        assert_eq!(revoked.check_active(now), Err(AuthFailure::RevokedKey));
    }
}
