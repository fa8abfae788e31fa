//! Advisory locks on identities. They guard clients that do not exist yet.

use super::{LoadRequest, Locking};
use common::db::Query;
use sha2::{Digest, Sha256};
use uuid::Uuid;

common::statements! {
    // Lock order: the keys are sorted, so that units that share identities take the locks in the same order.
    const LOCK = "
    -- locks.take
    SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key";
}

/// Takes the locks that the unit must hold before it loads, until its transaction ends.
///
/// Phones are always locked, because no unique index guards them. Emails and external ids are locked only when the unit
/// runs again after a conflict: on the first attempt, [`super::clients::LOAD`] locks those of unknown people without
/// waiting.
pub(super) fn take(request: &LoadRequest, locking: Locking) -> Option<Query<'static>> {
    let people = &request.people;
    let mut locks: Vec<i64> = people.phones.iter().map(|(tenant, phone)| lock_key(*tenant, "phone", phone)).collect();
    if locking == Locking::Everything {
        locks.extend(people.emails.iter().map(|(tenant, email)| email_lock(*tenant, email)));
        locks.extend(people.external_ids.keys().map(|(tenant, id)| external_id_lock(*tenant, id)));
    }
    locks.sort_unstable();
    (!locks.is_empty()).then(|| Query::new(LOCK).bind(locks))
}

pub(super) fn email_lock(tenant: Uuid, email: &str) -> i64 {
    lock_key(tenant, "email", email)
}

pub(super) fn external_id_lock(tenant: Uuid, external_id: &str) -> i64 {
    lock_key(tenant, "external", external_id)
}

/// The key of an advisory lock. All releases must compute the same one. Identities with the same hash only wait for each
/// other.
pub(super) fn lock_key(tenant: Uuid, kind: &str, key: &str) -> i64 {
    let digest = Sha256::new_with_prefix(tenant).chain_update(kind).chain_update([0]).chain_update(key).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}
