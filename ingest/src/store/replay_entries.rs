//! `replay_entries`: used signatures.

use chrono::{DateTime, Utc};
use common::caller::Caller;
use common::db::{Client, TxError};
use common::model::{KeyPrefix, TenantId};
use common::signature::Signature;
use futures_util::future::join_all;
use std::collections::HashMap;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// A used signature as it is stored: tenant, key, decoded MAC and time, never the header's text (D2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplayEntry {
    pub(crate) tenant: TenantId,
    pub(crate) key: KeyPrefix,
    pub(crate) mac: [u8; 32],
    /// The signature's `t`, in seconds since the epoch.
    pub(crate) signed_at: i64,
    /// The `Idempotency-Key` of a records POST (D3).
    pub(crate) idempotency_key: Option<String>,
}

/// The outcome of inserting one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InsertOutcome {
    /// The entry was inserted.
    New,
    /// The entry existed, from a request with this `Idempotency-Key`.
    Existing(Option<String>),
}

impl ReplayEntry {
    pub(crate) fn new(caller: &Caller, signature: &Signature, idempotency_key: Option<String>) -> Self {
        Self {
            tenant: caller.tenant_id,
            key: caller.key.clone(),
            mac: *signature.mac(),
            signed_at: signature.timestamp(),
            idempotency_key,
        }
    }

    /// Entries with equal identities are the same signature.
    pub(crate) fn identity(&self) -> (&TenantId, &KeyPrefix, &[u8; 32], i64) {
        (&self.tenant, &self.key, &self.mac, self.signed_at)
    }
}

common::statements! {
    /// Inserts entries and returns those that are new. A prefix belongs to one tenant, so prefix and MAC identify an entry.
    const INSERT = "-- replay_entries.insert
    INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at, idempotency_key)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[], $5::text[])
    ON CONFLICT DO NOTHING
    RETURNING key_prefix, mac";

    /// The `Idempotency-Key`s with which entries were inserted.
    const STORED = "-- replay_entries.stored
    SELECT e.key_prefix, e.mac, e.idempotency_key
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[]) AS w (tenant_id, key_prefix, mac, signed_at)
    JOIN replay_entries e USING (tenant_id, key_prefix, mac, signed_at)";

    /// Fails when entries cannot be inserted now: missing privilege, a standby, or no partition. Otherwise inserts nothing, and
    /// returns whether partitions can be created.
    const CHECK = "-- replay_entries.check
    WITH written AS (
        INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at)
        SELECT '00000000-0000-0000-0000-000000000000', '', '', now()
        WHERE to_regclass('replay_entries_' || (floor(extract(epoch FROM now()) / 600) * 600)::bigint) IS NULL)
    SELECT has_function_privilege('make_replay_partition(bigint)', 'EXECUTE')";
}

struct Columns<'a> {
    tenants: Vec<Uuid>,
    prefixes: Vec<&'a str>,
    macs: Vec<&'a [u8]>,
    signed_at: Vec<DateTime<Utc>>,
    idempotency_keys: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(entries: &[&'a ReplayEntry]) -> Self {
        Self {
            tenants: entries.iter().map(|entry| entry.tenant.0).collect(),
            prefixes: entries.iter().map(|entry| entry.key.as_str()).collect(),
            macs: entries.iter().map(|entry| entry.mac.as_slice()).collect(),
            // The timestamp was checked to be within 300 s of the clock, so the conversion cannot fail.
            signed_at: entries
                .iter()
                .map(|entry| DateTime::from_timestamp(entry.signed_at, 0).unwrap_or(DateTime::UNIX_EPOCH))
                .collect(),
            idempotency_keys: entries.iter().map(|entry| entry.idempotency_key.as_deref()).collect(),
        }
    }
}

/// Prepares the statement of [`insert`]. Takes no round trip if it is prepared already, or if there are no entries.
pub(crate) async fn prepare(client: &Client, entries: &[&ReplayEntry]) -> Result<(), Error> {
    if !entries.is_empty() {
        super::prepared(client, INSERT).await?;
    }
    Ok(())
}

/// Inserts `entries`, which are sorted and distinct, and returns for each whether it is new.
///
/// One round trip, or two when an existing entry has an `Idempotency-Key`.
pub(crate) async fn insert(client: &Client, entries: &[&ReplayEntry]) -> Result<Vec<InsertOutcome>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(entries);
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&columns.tenants, &columns.prefixes, &columns.macs, &columns.signed_at, &columns.idempotency_keys];
    let statement = super::prepared(client, INSERT).await?;
    let written = client.query(&statement, &parameters).await?;
    if written.len() == entries.len() {
        return Ok(vec![InsertOutcome::New; entries.len()]);
    }
    let mut known = HashMap::new();
    for row in &written {
        known.insert((row.try_get::<_, &str>(0)?, row.try_get::<_, &[u8]>(1)?), InsertOutcome::New);
    }
    let is_new = |entry: &ReplayEntry| known.contains_key(&(entry.key.as_str(), entry.mac.as_slice()));
    let asked: Vec<&ReplayEntry> =
        entries.iter().filter(|entry| entry.idempotency_key.is_some() && !is_new(entry)).copied().collect();
    let before = stored(client, &asked).await?;
    for row in &before {
        known.insert((row.try_get(0)?, row.try_get(1)?), InsertOutcome::Existing(row.try_get(2)?));
    }
    let of = |entry: &&ReplayEntry| known.get(&(entry.key.as_str(), entry.mac.as_slice())).cloned();
    Ok(entries.iter().map(|entry| of(entry).unwrap_or(InsertOutcome::Existing(None))).collect())
}

/// The same with one statement for each entry, all sent at once, so that a rejected entry does not fail the others.
pub(crate) async fn insert_each(client: &Client, entries: &[&ReplayEntry]) -> Vec<Result<InsertOutcome, Error>> {
    let each = entries.iter().map(async |entry| insert(client, &[*entry]).await);
    let one = |stored: Vec<InsertOutcome>| stored.into_iter().next().unwrap_or(InsertOutcome::Existing(None));
    join_all(each).await.into_iter().map(|stored| stored.map(one)).collect()
}

async fn stored(client: &Client, entries: &[&ReplayEntry]) -> Result<Vec<tokio_postgres::Row>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(entries);
    let statement = super::prepared(client, STORED).await?;
    client.query(&statement, &[&columns.tenants, &columns.prefixes, &columns.macs, &columns.signed_at]).await
}

/// Whether entries can also be inserted later. Fails when they cannot be inserted now.
pub(crate) async fn check(client: &Client) -> Result<bool, Error> {
    let statement = super::prepared(client, CHECK).await?;
    client.query_one(&statement, &[]).await?.try_get(0)
}

/// Whether an insert failed because there is no partition for its time.
pub(crate) fn is_partition_missing(error: &TxError) -> bool {
    error.sql_state() == Some(SqlState::CHECK_VIOLATION.code())
}

/// Whether an insert was rejected and rolled back for a reason that may concern only some of its entries. A statement that
/// timed out is not retried: it would time out again.
pub(crate) fn is_refused_for_its_values(error: &TxError) -> bool {
    match error {
        TxError::StatementFailed(_) | TxError::Conflict(_) | TxError::Locked(_) => {
            error.sql_state() != Some(SqlState::QUERY_CANCELED.code())
        }
        TxError::Unavailable(_) | TxError::Stale(_) | TxError::Abandoned(_) => false,
    }
}

#[cfg(test)]
pub(crate) mod testing {
    use super::*;

    /// An entry without an `Idempotency-Key`, whose MAC differs from that of every other number.
    pub(crate) fn entry(number: u64) -> ReplayEntry {
        let mut mac = [0; 32];
        mac[..8].copy_from_slice(&number.to_be_bytes());
        ReplayEntry {
            tenant: TenantId(uuid::Uuid::from_u128(1)),
            key: KeyPrefix::parse("ck_1").unwrap(),
            mac,
            signed_at: 1_767_225_600,
            idempotency_key: None,
        }
    }
}
