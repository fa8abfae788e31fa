//! Advisory locks on identities: they guard what does not exist yet.

use super::{LoadRequest, Locking};
use common::db::Query;
use sha2::{Digest, Sha256};
use uuid::Uuid;

// Sorted, so that two units that share identities take them in the same order.
pub(super) const LOCK: &str = "
    -- locks.take
    SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key";

/// Takes the locks that the unit must hold before it loads, until its transaction ends.
///
/// Phones in any case: no unique index stands behind them. Emails and external ids only once the unit has been in conflict
/// with another one: before that, [`super::clients::LOAD`] locks those of people who do not exist, without waiting.
pub(super) fn take(request: &LoadRequest, locking: Locking) -> Option<Query<'static>> {
    let people = &request.people;
    let mut locks: Vec<i64> =
        people.phones.iter().map(|(tenant, phone)| hash(*tenant, "phone", phone)).collect();
    if locking == Locking::Everything {
        locks.extend(people.emails.iter().map(|(tenant, email)| of_email(*tenant, email)));
        locks.extend(people.external_ids.keys().map(|(tenant, id)| of_external_id(*tenant, id)));
    }
    locks.sort_unstable();
    (!locks.is_empty()).then(|| Query::new(LOCK).bind(locks))
}

/// The lock of an email.
pub(super) fn of_email(tenant: Uuid, email: &str) -> i64 {
    hash(tenant, "email", email)
}

/// The lock of an external id.
pub(super) fn of_external_id(tenant: Uuid, external_id: &str) -> i64 {
    hash(tenant, "external", external_id)
}

/// A hash on which every release agrees. Two identities that share one only wait for each other.
pub(super) fn hash(tenant: Uuid, kind: &str, key: &str) -> i64 {
    let digest =
        Sha256::new_with_prefix(tenant).chain_update(kind).chain_update([0]).chain_update(key).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}
