//! Steps 2 to 6 of D1: pure, in their order.

use super::failure::Failure;
use super::key::Key;
use crate::heavy::work_on;
use crate::request::RequestHead;
use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::model::Scope;
use common::signature::{Scheme, Signature, Signed};
use std::sync::Arc;

/// What an unknown key's HMAC is made with, so that it costs as much as a known one's.
const DUMMY_SECRET: &[u8] = b"no key has this secret";

/// What the signature of a request must cover under `scheme`.
pub(super) fn signed<'a>(scheme: Scheme, head: &'a RequestHead, body: &'a [u8]) -> Signed<'a> {
    match scheme {
        Scheme::V1 => Signed::Body(body),
        Scheme::V2 => Signed::Request { method: head.method.as_str(), target: head.target(), body },
    }
}

/// Steps 2 to 4: the key is active, the signature is fresh at `now`, its MAC verifies.
///
/// What it costs depends on the signature's timestamp and the body's size, never on the key.
pub(super) fn check_signature(
    key: Option<Arc<Key>>,
    signature: &Signature,
    signed: Signed<'_>,
    now: DateTime<Utc>,
) -> Result<Arc<Key>, Failure> {
    let secret = key.as_ref().map_or(DUMMY_SECRET, |key| key.secret.reveal().as_bytes());
    let (scheme, size) = match signed {
        Signed::Body(body) => (Scheme::V1, body.len()),
        Signed::Request { body, .. } => (Scheme::V2, body.len()),
    };
    let verdict = signature
        .check_fresh(scheme, now.timestamp())
        .and_then(|()| work_on(size, || signature.check_mac(secret, signed)));
    let key = key.ok_or(Failure::UnknownKey)?;
    key.check_active(now)?;
    verdict?;
    Ok(key)
}

/// Steps 5 and 6: the agency named is the key's (trimmed, any case), and the key has the route's scope.
pub(super) fn check_use(caller: &Caller, tenant: &str, scope: Scope) -> Result<(), Failure> {
    if !tenant.eq_ignore_ascii_case(&caller.tenant) {
        return Err(Failure::Tenant);
    }
    if !caller.scopes.has(scope) {
        return Err(Failure::Scope);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::signature::sign;

    const NOW: i64 = 1_767_225_600;
    const BODY: Signed<'static> = Signed::Body(b"{}");

    fn check(key: Option<Key>, secret: &str, at: i64) -> Result<(), Failure> {
        let signature = Signature::parse(&sign(secret.as_bytes(), at, BODY)).unwrap();
        let now = DateTime::from_timestamp(NOW, 999_000_000).unwrap();
        check_signature(key.map(Arc::new), &signature, BODY, now).map(drop)
    }

    #[test]
    fn the_checks_speak_in_the_order_of_d1() {
        let key = Key::for_tests;
        let revoked = || Key { is_revoked: true, ..Key::for_tests() };
        // Each case fails all later checks, too.
        assert_eq!(check(None, "wrong", NOW - 301), Err(Failure::UnknownKey));
        assert_eq!(check(Some(revoked()), "wrong", NOW - 301), Err(Failure::RevokedKey));
        assert_eq!(check(Some(key()), "wrong", NOW - 301), Err(Failure::Stale));
        assert_eq!(check(Some(key()), "wrong", NOW), Err(Failure::Mismatch));
        assert_eq!(check(Some(key()), "s3cret", NOW), Ok(()));
    }

    #[test]
    fn freshness_is_inclusive_and_counts_whole_seconds() {
        for (at, verdict) in
            [(300, Ok(())), (301, Err(Failure::Stale)), (-300, Ok(())), (-301, Err(Failure::Stale))]
        {
            assert_eq!(check(Some(Key::for_tests()), "s3cret", NOW + at), verdict, "{at}");
        }
    }

    #[test]
    fn the_other_routes_scheme_is_refused() {
        let request = Signed::Request { method: "POST", target: "/x", body: b"{}" };
        let signature = Signature::parse(&sign(b"s3cret", NOW, request)).unwrap();
        let now = DateTime::from_timestamp(NOW, 0).unwrap();
        let key = || Some(Arc::new(Key::for_tests()));
        assert_eq!(check_signature(key(), &signature, BODY, now).map(drop), Err(Failure::WrongScheme));
        assert_eq!(check_signature(key(), &signature, request, now).map(drop), Ok(()));
    }

    #[test]
    fn an_unknown_key_with_the_dummys_signature_is_still_unknown() {
        assert_eq!(check(None, "no key has this secret", NOW), Err(Failure::UnknownKey));
    }

    #[test]
    fn the_tenant_comes_before_the_scope_and_ignores_case() {
        let caller = Key::for_tests().caller;
        assert_eq!(check_use(&caller, "ACME", Scope::EventsIngest), Ok(()));
        assert_eq!(check_use(&caller, "other", Scope::LeadsWrite), Err(Failure::Tenant));
        assert_eq!(check_use(&caller, "acme", Scope::LeadsWrite), Err(Failure::Scope));
    }
}
