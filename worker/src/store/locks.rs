//! Advisory locks on identities: they guard what does not exist yet.

use super::{Identities, LoadRequest, Locking};
use common::db::Query;
use sha2::{Digest, Sha256};
use uuid::Uuid;

// Sorted, so that two units that share identities take them in the same order.
pub(super) const LOCK: &str = "
    -- locks.take
    SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key";

// Who exists is guarded by their row: two units that only read a client need not wait for each other. What is missing
// is locked, so that of two units that would make it one waits for the other and finds it. An external id that came with
// an email matches nobody (D10): should two clients take it at once, its unique index rolls one unit back. Phones are
// locked in any case: no unique index stands behind them.
pub(super) const LOCK_MISSING: &str = "
    -- locks.take_missing
    SELECT pg_advisory_xact_lock(lock) FROM (
        SELECT w.lock FROM unnest($1::uuid[], $2::text[], $3::bigint[]) AS w (tenant_id, key, lock)
            LEFT JOIN LATERAL (SELECT true AS is_known FROM clients
                               WHERE email_key = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c ON true
            WHERE c.is_known IS NULL
        UNION ALL
        SELECT w.lock FROM unnest($4::uuid[], $5::text[], $6::bigint[]) AS w (tenant_id, key, lock)
            LEFT JOIN LATERAL (SELECT true AS is_known FROM clients
                               WHERE external_id = w.key AND tenant_id::text = w.tenant_id::text LIMIT 1) AS c ON true
            WHERE c.is_known IS NULL
        UNION ALL
        SELECT lock FROM unnest($7::bigint[]) AS lock
        ORDER BY lock
    ) AS missing";

/// Takes the locks that the unit needs on identities, until its transaction ends.
pub(super) fn take(request: &LoadRequest, locking: Locking) -> Option<Query<'static>> {
    let people = &request.people;
    if people.is_empty() {
        return None;
    }
    Some(match locking {
        Locking::Related => take_missing(people),
        Locking::Everything => {
            let mut locks = hashes("email", people.emails.iter());
            locks.extend(hashes("external", people.external_ids.keys()));
            locks.extend(hashes("phone", people.phones.iter()));
            locks.sort_unstable();
            Query::new(LOCK).bind(locks)
        }
    })
}

fn take_missing(people: &Identities) -> Query<'static> {
    let (email_tenants, emails) = people.emails.columns();
    let matching = || people.external_ids.iter().filter(|(_, email)| email.is_none()).map(|(key, _)| key);
    let (external_tenants, external_ids): (Vec<Uuid>, Vec<String>) = matching().cloned().unzip();
    Query::new(LOCK_MISSING)
        .bind(email_tenants)
        .bind(emails)
        .bind(hashes("email", people.emails.iter()))
        .bind(external_tenants)
        .bind(external_ids)
        .bind(hashes("external", matching()))
        .bind(hashes("phone", people.phones.iter()))
}

fn hashes<'k>(kind: &str, keys: impl Iterator<Item = &'k (Uuid, String)>) -> Vec<i64> {
    keys.map(|(tenant, key)| hash(*tenant, kind, key)).collect()
}

/// A hash on which every release agrees. Two identities that share one only wait for each other.
pub(super) fn hash(tenant: Uuid, kind: &str, key: &str) -> i64 {
    let digest =
        Sha256::new_with_prefix(tenant).chain_update(kind).chain_update([0]).chain_update(key).finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}
