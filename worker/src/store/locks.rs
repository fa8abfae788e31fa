//! Locks on identities: they also guard what doesn't exist yet.

use super::Wanted;
use common::db::TxError;
use deadpool_postgres::Transaction;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

// The array is sorted, so that two units that share identities take them in the same order.
pub(super) const LOCK: &str = "
    -- locks.take
    SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key";

/// Takes the locks of every identity in the unit, until the transaction ends.
pub(super) async fn take(tx: &Transaction<'_>, wanted: &Wanted) -> Result<(), TxError> {
    let mut keys = BTreeSet::new();
    for (kind, identities) in
        [("email", &wanted.emails), ("external", &wanted.external_ids), ("phone", &wanted.phones)]
    {
        keys.extend(identities.iter().map(|(tenant, identity)| hash(tenant.as_bytes(), kind, identity)));
    }
    if keys.is_empty() {
        return Ok(());
    }
    let keys: Vec<i64> = keys.into_iter().collect();
    super::query(tx, LOCK, &[&keys]).await.map(drop)
}

/// Takes one lock, until the transaction ends.
pub(super) async fn take_one(
    tx: &Transaction<'_>,
    tenant: common::model::TenantId,
    kind: &str,
    identity: &str,
) -> Result<(), TxError> {
    let keys = vec![hash(tenant.0.as_bytes(), kind, identity)];
    super::query(tx, LOCK, &[&keys]).await.map(drop)
}

/// A hash that every release agrees on. Two identities that share one only wait for each other.
fn hash(tenant: &[u8], kind: &str, identity: &str) -> i64 {
    let digest = Sha256::new_with_prefix(tenant)
        .chain_update(kind)
        .chain_update([0])
        .chain_update(identity)
        .finalize();
    let mut first = [0; 8];
    first.copy_from_slice(&digest[..8]);
    i64::from_be_bytes(first)
}
