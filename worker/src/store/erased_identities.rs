//! Identities of people who were erased (D32).

use super::Columns;
use chrono::{DateTime, Utc};
use common::db::Query;
use common::erasure::IdentityHash;
use common::model::TenantId;
use std::collections::HashMap;
use tokio_postgres::Row;

common::statements! {
    const LOAD = "
    -- erased_identities.load
    SELECT e.tenant_id, e.identity_hash, e.erased_at
    FROM unnest($1::uuid[], $2::bytea[]) AS w (tenant_id, identity_hash)
    CROSS JOIN LATERAL (SELECT * FROM erased_identities e
                        WHERE e.tenant_id = w.tenant_id AND e.identity_hash = w.identity_hash LIMIT 1) AS e";
}

/// When each of these identities was erased.
pub(crate) type ErasedIdentities = HashMap<(TenantId, IdentityHash), DateTime<Utc>>;

/// Loads which of the identities belonged to people who were erased.
pub(crate) fn load(hashes: &[(TenantId, IdentityHash)]) -> Query<'static> {
    Query::new(LOAD).bind_column(hashes, |hash| hash.0.0).bind_column(hashes, |hash| hash.1.to_vec())
}

/// The rows of [`load`].
pub(super) fn erased(rows: &[Row]) -> ErasedIdentities {
    let read = |row: &Row| {
        let mut columns = Columns::of(row);
        let (tenant, hash) = (TenantId(columns.take()), columns.take::<&[u8]>().try_into().ok()?);
        Some(((tenant, hash), columns.take()))
    };
    rows.iter().filter_map(read).collect()
}
