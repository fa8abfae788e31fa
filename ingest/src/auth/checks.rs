//! Steps 2 to 6 of D1, in that order, as pure functions.

use super::failure::AuthFailure;
use super::key::{ApiKey, SecretKind};
use crate::http::RequestHead;
use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::cpu_bound::run_cpu_bound;
use common::model::Scope;
use common::signature::{Scheme, Signature, Signed};
use std::sync::Arc;

/// Stands for the secrets of an unknown key, and for the old secret of a key that has none, so that every check takes the same time.
const DUMMY_SECRET: &[u8] = b"no key has this secret";

/// What the signature of a request must cover under `scheme`.
pub(super) fn signed<'a>(scheme: Scheme, head: &'a RequestHead, body: &'a [u8]) -> Signed<'a> {
    match scheme {
        Scheme::V1 => Signed::Body(body),
        Scheme::V2 => Signed::Request { method: head.method.as_str(), target: head.target(), body },
    }
}

/// Steps 2 to 4: the key is active at `now`, the signature is fresh at `received_at`, its MAC verifies with the current secret or,
/// during an overlap, with the old one (D33). Returns which secret it was.
///
/// The time that a refusal takes depends on the signature's timestamp and the body's size, never on the key: two MACs are
/// computed whether the key exists, has one secret or two, or is revoked. Only a request that is accepted with the current
/// secret costs one.
pub(super) fn check_signature(
    key: Option<Arc<ApiKey>>, signature: &Signature, signed: Signed<'_>, received_at: i64, now: DateTime<Utc>,
) -> Result<(Arc<ApiKey>, SecretKind), AuthFailure> {
    let (scheme, size) = match signed {
        Signed::Body(body) => (Scheme::V1, body.len()),
        Signed::Request { body, .. } => (Scheme::V2, body.len()),
    };
    let current = key.as_ref().map_or(DUMMY_SECRET, |key| key.secret.reveal().as_bytes());
    let old = key.as_ref().and_then(|key| key.old_secret(now));
    let (old, has_old) = (old.map_or(DUMMY_SECRET, |secret| secret.reveal().as_bytes()), old.is_some());
    let active = key.as_ref().map_or(Err(AuthFailure::UnknownKey), |key| key.check_active(now));
    let check_mac = |secret| {
        #[cfg(test)]
        tests::MACS.set(tests::MACS.get() + 1);
        signature.check_mac(secret, signed)
    };
    let check_macs = || {
        let by_current = check_mac(current);
        if by_current.is_ok() && active.is_ok() {
            return Ok(SecretKind::Current);
        }
        let by_old = check_mac(old);
        // The dummy is not a secret of the key. A correct MAC of an inactive key is `Ok` here; `active?` refuses it below.
        if has_old && by_old.is_ok() { Ok(SecretKind::Old) } else { by_current.map(|()| SecretKind::Current) }
    };
    let verdict = signature.check_fresh(scheme, received_at).and_then(|()| run_cpu_bound(size, check_macs));
    active?;
    let key = key.ok_or(AuthFailure::UnknownKey)?;
    Ok((key, verdict?))
}

/// Steps 5 and 6: `tenant` (trimmed, compared case-insensitively) is the key's tenant, and the key has the route's scope.
pub(super) fn check_use(caller: &Caller, tenant: &str, scope: Scope) -> Result<(), AuthFailure> {
    if !tenant.eq_ignore_ascii_case(&caller.tenant) {
        return Err(AuthFailure::Tenant);
    }
    if !caller.scopes.has(scope) {
        return Err(AuthFailure::Scope);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::key::OldSecret;
    use common::sealed::Secret;
    use common::signature::sign;
    use std::cell::Cell;

    thread_local! {
        /// MACs that this thread has computed.
        pub(super) static MACS: Cell<u32> = const { Cell::new(0) };
    }

    const NOW: i64 = 1_767_225_600;
    const BODY: Signed<'static> = Signed::Body(b"{}");

    fn check(key: Option<ApiKey>, secret: &str, at: i64) -> Result<(), AuthFailure> {
        let signature = Signature::parse(&sign(secret.as_bytes(), at, BODY)).unwrap();
        let now = DateTime::from_timestamp(NOW, 999_000_000).unwrap();
        check_signature(key.map(Arc::new), &signature, BODY, NOW, now).map(drop)
    }

    #[test]
    fn the_first_failed_check_in_the_order_of_d1_decides() {
        let key = ApiKey::for_tests;
        let revoked = || ApiKey { is_revoked: true, ..ApiKey::for_tests() };
        // Each case fails all later checks, too.
        assert_eq!(check(None, "wrong", NOW - 301), Err(AuthFailure::UnknownKey));
        assert_eq!(check(Some(revoked()), "wrong", NOW - 301), Err(AuthFailure::RevokedKey));
        assert_eq!(check(Some(key()), "wrong", NOW - 301), Err(AuthFailure::Stale));
        assert_eq!(check(Some(key()), "wrong", NOW), Err(AuthFailure::Mismatch));
        assert_eq!(check(Some(key()), "s3cret", NOW), Ok(()));
    }

    #[test]
    fn freshness_is_inclusive_and_counts_whole_seconds() {
        for (at, verdict) in
            [(300, Ok(())), (301, Err(AuthFailure::Stale)), (-300, Ok(())), (-301, Err(AuthFailure::Stale))]
        {
            assert_eq!(check(Some(ApiKey::for_tests()), "s3cret", NOW + at), verdict, "{at}");
        }
    }

    #[test]
    fn the_other_routes_scheme_is_refused() {
        let request = Signed::Request { method: "POST", target: "/x", body: b"{}" };
        let signature = Signature::parse(&sign(b"s3cret", NOW, request)).unwrap();
        let now = DateTime::from_timestamp(NOW, 0).unwrap();
        let key = || Some(Arc::new(ApiKey::for_tests()));
        assert_eq!(check_signature(key(), &signature, BODY, NOW, now).map(drop), Err(AuthFailure::WrongScheme));
        assert_eq!(check_signature(key(), &signature, request, NOW, now).map(drop), Ok(()));
    }

    #[test]
    fn a_signature_with_the_dummy_secret_does_not_authenticate() {
        assert_eq!(check(None, "no key has this secret", NOW), Err(AuthFailure::UnknownKey));
    }

    #[test]
    fn both_secrets_verify_until_the_overlap_ends() {
        let now = DateTime::from_timestamp(NOW, 999_000_000).unwrap();
        let rotated = |until| {
            let old_secret = Some(OldSecret { secret: Secret::new("old".to_owned()), until });
            Some(Arc::new(ApiKey { old_secret, ..ApiKey::for_tests() }))
        };
        let check = |secret: &str, until| {
            let signature = Signature::parse(&sign(secret.as_bytes(), NOW, BODY)).unwrap();
            check_signature(rotated(until), &signature, BODY, NOW, now).map(|(_, by)| by)
        };
        let later = now + chrono::TimeDelta::milliseconds(1);
        assert_eq!(check("s3cret", later), Ok(SecretKind::Current));
        assert_eq!(check("old", later), Ok(SecretKind::Old));
        assert_eq!(check("older", later), Err(AuthFailure::Mismatch));
        assert_eq!(check("s3cret", now), Ok(SecretKind::Current));
        assert_eq!(check("old", now), Err(AuthFailure::Mismatch), "its last millisecond was before");
    }

    #[test]
    fn the_dummy_is_no_old_secret() {
        assert_eq!(check(Some(ApiKey::for_tests()), "no key has this secret", NOW), Err(AuthFailure::Mismatch));
    }

    #[test]
    fn a_refusal_costs_the_same_macs_whatever_the_key_is() {
        let old_secret = || Some(OldSecret { secret: Secret::new("old".to_owned()), until: DateTime::<Utc>::MAX_UTC });
        let rotated = ApiKey { old_secret: old_secret(), ..ApiKey::for_tests() };
        let revoked = ApiKey { is_revoked: true, old_secret: old_secret(), ..ApiKey::for_tests() };
        for key in [None, Some(ApiKey::for_tests()), Some(rotated), Some(revoked)] {
            MACS.set(0);
            assert!(check(key, "wrong", NOW).is_err());
            assert_eq!(MACS.get(), 2);
        }
        MACS.set(0);
        assert!(check(Some(ApiKey { is_revoked: true, ..ApiKey::for_tests() }), "s3cret", NOW).is_err());
        assert_eq!(MACS.get(), 2, "also if the secret is right");
    }

    #[test]
    fn the_old_secret_of_a_revoked_key_does_not_authenticate() {
        let now = DateTime::from_timestamp(NOW, 0).unwrap();
        let old_secret = OldSecret { secret: Secret::new("old".to_owned()), until: DateTime::<Utc>::MAX_UTC };
        let key = ApiKey { is_revoked: true, old_secret: Some(old_secret), ..ApiKey::for_tests() };
        let signature = Signature::parse(&sign(b"old", NOW, BODY)).unwrap();
        let checked = check_signature(Some(Arc::new(key)), &signature, BODY, NOW, now).map(|(_, by)| by);
        assert_eq!(checked, Err(AuthFailure::RevokedKey));
    }

    #[test]
    fn the_tenant_comes_before_the_scope_and_ignores_case() {
        let caller = ApiKey::for_tests().caller;
        assert_eq!(check_use(&caller, "ACME", Scope::EventsIngest), Ok(()));
        assert_eq!(check_use(&caller, "other", Scope::LeadsWrite), Err(AuthFailure::Tenant));
        assert_eq!(check_use(&caller, "acme", Scope::LeadsWrite), Err(AuthFailure::Scope));
    }
}
