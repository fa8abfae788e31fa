//! An API key as authentication needs it.

use super::failure::Failure;
use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::sealed::Secret;

/// An API key with its agency. The secret is redacted in `Debug`.
#[derive(Clone, Debug)]
pub struct Key {
    /// Who calls with it.
    pub caller: Caller,
    /// What it signs with.
    pub secret: Secret,
    /// From when on it is refused.
    pub expires_at: Option<DateTime<Utc>>,
    /// Whether it was revoked.
    pub is_revoked: bool,
    /// Records reads that it may do per second (D23).
    pub reads_per_second: u32,
}

impl Key {
    /// Whether it may be used at `now` (D1, 2).
    pub fn check_active(&self, now: DateTime<Utc>) -> Result<(), Failure> {
        if self.is_revoked {
            return Err(Failure::RevokedKey);
        }
        if self.expires_at.is_some_and(|at| at <= now) {
            return Err(Failure::ExpiredKey);
        }
        Ok(())
    }
}

#[cfg(test)]
impl Key {
    /// A key of the agency `acme` that may send events, and signs with `s3cret`.
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
            caller,
            secret: Secret::new("s3cret".to_owned()),
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
        let key = Key { expires_at: Some(now), ..Key::for_tests() };
        assert_eq!(key.check_active(now - chrono::TimeDelta::milliseconds(1)), Ok(()));
        assert_eq!(key.check_active(now), Err(Failure::ExpiredKey));
        let revoked = Key { is_revoked: true, ..key };
        assert_eq!(revoked.check_active(now), Err(Failure::RevokedKey));
    }
}
