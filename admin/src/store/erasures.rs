//! Erasures: the lock that excludes units of work, the key of the hashes, the hashes, and the receipts (D32). `person_tables` deletes
//! the person's rows.

use super::{all, exactly_one, execute, one};
use crate::AdminError;
use chrono::{DateTime, Utc};
use common::erasure::IdentityHash;
use common::model::{ClientId, TenantId};
use std::collections::BTreeMap;
use tokio_postgres::{Client, GenericClient, Row, Transaction};
use uuid::Uuid;

common::statements! {
    /// Units of work of the tenant wait meanwhile, so that the wait for those under way is limited.
    const LIMIT_WAIT = "-- erasures.limit_wait
    SELECT set_config('lock_timeout', '15s', true)";

    const LOCK = "-- erasures.lock
    SELECT pg_advisory_xact_lock(erasure_lock($1))";

    const NOW = "-- erasures.now
    SELECT date_trunc('milliseconds', clock_timestamp())";

    const KEY = "-- erasure_key.read
    SELECT sealed FROM erasure_key WHERE only_row";

    const ADD_KEY = "-- erasure_key.add
    INSERT INTO erasure_key (sealed) VALUES ($1) ON CONFLICT DO NOTHING";

    const REWRAP_KEY = "-- erasure_key.rewrap
    UPDATE erasure_key SET sealed = $2 WHERE only_row AND sealed = $1";

    const ADD_HASHES = "-- erased_identities.add
    INSERT INTO erased_identities AS e (tenant_id, identity_hash, erased_at)
    SELECT $1::uuid, w.hash, w.until FROM unnest($2::bytea[], $3::timestamptz[]) AS w (hash, until) ORDER BY w.hash
    ON CONFLICT (tenant_id, identity_hash) DO UPDATE SET erased_at = greatest(e.erased_at, excluded.erased_at)";

    const HASHES = "-- erased_identities.of_erasure
    SELECT i.identity_hash, i.erased_at
    FROM erasures e JOIN erased_identities i ON i.tenant_id = e.tenant_id
    WHERE e.tenant_id = $1 AND e.client_id = $2 AND i.identity_hash = ANY(e.identity_hashes)";

    const MARK_TENANT = "-- tenants.mark_erasure
    UPDATE tenants SET last_erasure_at = greatest(last_erasure_at, $2) WHERE tenant_id = $1";

    /// The first step of an erasure adds the receipt, and the last one what has changed meanwhile. The dead letters are counted last.
    const ADD = "-- erasures.add
    INSERT INTO erasures AS e (tenant_id, client_id, erased_at, removed, record_ids, identity_hashes)
    VALUES ($1, $2, $3, '{}', $4, $5)
    ON CONFLICT (tenant_id, client_id) DO UPDATE SET erased_at = excluded.erased_at,
        record_ids = ARRAY(SELECT unnest(e.record_ids) UNION SELECT unnest(excluded.record_ids)),
        identity_hashes = ARRAY(SELECT unnest(e.identity_hashes) UNION SELECT unnest(excluded.identity_hashes))";

    const FIND = "-- erasures.find
    SELECT erased_at, removed::text AS removed, record_ids FROM erasures WHERE tenant_id = $1 AND client_id = $2";

    const LOCK_COUNTS = "-- erasures.lock_counts
    SELECT removed::text FROM erasures WHERE tenant_id = $1 AND client_id = $2 FOR UPDATE";

    const EXTEND = "-- erasures.extend
    UPDATE erasures SET removed = $3::text::json, record_ids = record_ids || $4::uuid[]
    WHERE tenant_id = $1 AND client_id = $2";
}

pub(crate) struct StoredErasure {
    pub(crate) erased_at: DateTime<Utc>,
    /// JSON object of counts.
    pub(crate) removed: String,
    pub(crate) record_ids: Vec<Uuid>,
}

/// Waits for the tenant's units of work that are under way and keeps others from beginning, until the transaction ends. Returns the
/// server's time.
pub(crate) async fn lock(tx: &Transaction<'_>, tenant: TenantId) -> Result<DateTime<Utc>, AdminError> {
    exactly_one(tx, LIMIT_WAIT, &[]).await?;
    exactly_one(tx, LOCK, &[&tenant.0]).await?;
    Ok(exactly_one(tx, NOW, &[]).await?.try_get(0)?)
}

/// The sealed key of the hashes, if there is one.
pub(crate) async fn key(on: &impl GenericClient) -> Result<Option<Vec<u8>>, AdminError> {
    one(on, KEY, &[], |row| Ok(row.try_get(0)?)).await
}

/// Stores a sealed key, unless there is one.
pub(crate) async fn add_key(on: &impl GenericClient, sealed: &[u8]) -> Result<(), AdminError> {
    execute(on, ADD_KEY, &[&sealed]).await?;
    Ok(())
}

/// Replaces the sealed key by the same one under another master key. `false` if it was changed meanwhile.
pub(crate) async fn rewrap_key(client: &Client, was: &[u8], now: &[u8]) -> Result<bool, AdminError> {
    Ok(execute(client, REWRAP_KEY, &[&was, &now]).await? == 1)
}

/// The identities of a client who was erased, each with the last time at which it meant somebody who was erased.
pub(crate) async fn hashes_of(
    client: &Client, tenant: TenantId, id: ClientId,
) -> Result<BTreeMap<IdentityHash, DateTime<Utc>>, AdminError> {
    let read = |row: &Row| Ok((row.try_get::<_, &[u8]>(0)?.try_into().unwrap_or([0; 32]), row.try_get(1)?));
    Ok(all(client, HASHES, &[&tenant.0, &id.0], read).await?.into_iter().collect())
}

/// Remembers identities as erased, each with the last time at which it meant the person, and adds the receipt or completes it.
pub(crate) async fn add(
    tx: &Transaction<'_>, (tenant, client): (TenantId, ClientId), erased_at: DateTime<Utc>, record_ids: &[Uuid],
    hashes: &BTreeMap<IdentityHash, DateTime<Utc>>,
) -> Result<(), AdminError> {
    let (hashes, until): (Vec<&[u8]>, Vec<DateTime<Utc>>) =
        hashes.iter().map(|(hash, until)| (hash.as_slice(), *until)).unzip();
    execute(tx, ADD_HASHES, &[&tenant.0, &hashes, &until]).await?;
    execute(tx, MARK_TENANT, &[&tenant.0, &erased_at]).await?;
    execute(tx, ADD, &[&tenant.0, &client.0, &erased_at, &record_ids, &hashes]).await?;
    Ok(())
}

/// The receipt of a client who was erased, or is being erased.
pub(crate) async fn find(
    on: &impl GenericClient, tenant: TenantId, client: ClientId,
) -> Result<Option<StoredErasure>, AdminError> {
    let read = |row: &Row| {
        Ok(StoredErasure {
            erased_at: row.try_get("erased_at")?,
            removed: row.try_get("removed")?,
            record_ids: row.try_get("record_ids")?,
        })
    };
    one(on, FIND, &[&tenant.0, &client.0], read).await
}

/// Its counts, which nobody else changes until the transaction ends. Fails if they or other rows are locked for long.
pub(crate) async fn lock_counts(
    tx: &Transaction<'_>, tenant: TenantId, client: ClientId,
) -> Result<Option<String>, AdminError> {
    exactly_one(tx, LIMIT_WAIT, &[]).await?;
    one(tx, LOCK_COUNTS, &[&tenant.0, &client.0], |row| Ok(row.try_get(0)?)).await
}

/// Replaces the counts of a receipt, and adds ids.
pub(crate) async fn extend(
    tx: &Transaction<'_>, (tenant, client): (TenantId, ClientId), removed: &str, record_ids: &[Uuid],
) -> Result<(), AdminError> {
    execute(tx, EXTEND, &[&tenant.0, &client.0, &removed, &record_ids]).await?;
    Ok(())
}
