//! `replay_entries`.

use crate::auth::{Entry, IdempotencyKey, Stored};
use chrono::{DateTime, Utc};
use common::db::{Client, TxError};
use futures_util::future::join_all;
use std::collections::HashMap;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

/// Remembers signatures and gives those that are new. A prefix belongs to one agency, so it and the MAC say which.
pub const REMEMBER: &str = "-- replay_entries.remember
    INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at, idempotency_key)
    SELECT * FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[], $5::text[])
    ON CONFLICT DO NOTHING
    RETURNING key_prefix, mac";

/// What signatures came with when they were remembered.
pub const STORED: &str = "-- replay_entries.stored
    SELECT e.key_prefix, e.mac, e.idempotency_key
    FROM unnest($1::uuid[], $2::text[], $3::bytea[], $4::timestamptz[]) AS w (tenant_id, key_prefix, mac, signed_at)
    JOIN replay_entries e USING (tenant_id, key_prefix, mac, signed_at)";

/// Fails where signatures of now can't be written: no right, a standby, no partition. Writes nothing otherwise, and gives
/// whether the next partitions can be made.
pub const CHECK: &str = "-- replay_entries.check
    WITH written AS (
        INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at)
        SELECT '00000000-0000-0000-0000-000000000000', '', '', now()
        WHERE to_regclass('replay_entries_' || (floor(extract(epoch FROM now()) / 600) * 600)::bigint) IS NULL)
    SELECT has_function_privilege('make_replay_partition(bigint)', 'EXECUTE')";

/// Entries as columns.
struct Columns<'a> {
    tenants: Vec<Uuid>,
    prefixes: Vec<&'a str>,
    macs: Vec<&'a [u8]>,
    signed_at: Vec<DateTime<Utc>>,
    idempotency_keys: Vec<Option<&'a str>>,
}

impl<'a> Columns<'a> {
    fn of(entries: &[&'a Entry]) -> Self {
        Self {
            tenants: entries.iter().map(|entry| entry.tenant.0).collect(),
            prefixes: entries.iter().map(|entry| entry.key.as_str()).collect(),
            macs: entries.iter().map(|entry| entry.mac.as_slice()).collect(),
            // Within 300 s of the clock, so always a time.
            signed_at: entries
                .iter()
                .map(|entry| DateTime::from_timestamp(entry.signed_at, 0).unwrap_or(DateTime::UNIX_EPOCH))
                .collect(),
            idempotency_keys: entries
                .iter()
                .map(|entry| entry.idempotency_key.as_ref().map(IdempotencyKey::as_str))
                .collect(),
        }
    }
}

/// Remembers `entries`, which are sorted and each there once, and says of each whether it was there before.
///
/// One round trip, unless a POST that came with an `Idempotency-Key` was there before.
pub async fn remember(client: &Client, entries: &[&Entry]) -> Result<Vec<Stored>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(entries);
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&columns.tenants, &columns.prefixes, &columns.macs, &columns.signed_at, &columns.idempotency_keys];
    let statement = client.prepare_cached(REMEMBER).await?;
    let written = client.query(&statement, &parameters).await?;
    if written.len() == entries.len() {
        return Ok(vec![Stored::Now; entries.len()]);
    }
    let mut known = HashMap::new();
    for row in &written {
        known.insert((row.try_get::<_, &str>(0)?, row.try_get::<_, &[u8]>(1)?), Stored::Now);
    }
    let is_new = |entry: &Entry| known.contains_key(&(entry.key.as_str(), entry.mac.as_slice()));
    let asked: Vec<&Entry> =
        entries.iter().filter(|entry| entry.idempotency_key.is_some() && !is_new(entry)).copied().collect();
    let before = stored(client, &asked).await?;
    for row in &before {
        known.insert((row.try_get(0)?, row.try_get(1)?), Stored::Before(row.try_get(2)?));
    }
    let of = |entry: &&Entry| known.get(&(entry.key.as_str(), entry.mac.as_slice())).cloned();
    Ok(entries.iter().map(|entry| of(entry).unwrap_or(Stored::Before(None))).collect())
}

/// The same with a statement for each entry, all sent at once: one that is refused doesn't fail the others.
pub async fn remember_each(client: &Client, entries: &[&Entry]) -> Vec<Result<Stored, Error>> {
    let each = entries.iter().map(async |entry| remember(client, &[*entry]).await);
    let one = |stored: Vec<Stored>| stored.into_iter().next().unwrap_or(Stored::Before(None));
    join_all(each).await.into_iter().map(|stored| stored.map(one)).collect()
}

async fn stored(client: &Client, entries: &[&Entry]) -> Result<Vec<tokio_postgres::Row>, Error> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let columns = Columns::of(entries);
    let statement = client.prepare_cached(STORED).await?;
    client.query(&statement, &[&columns.tenants, &columns.prefixes, &columns.macs, &columns.signed_at]).await
}

/// Whether signatures can be written later, too. Fails where they can't be written now.
pub async fn check(client: &Client) -> Result<bool, Error> {
    let statement = client.prepare_cached(CHECK).await?;
    client.query_one(&statement, &[]).await?.try_get(0)
}

/// Whether an insert failed because there is no partition for its time.
pub fn is_partition_missing(error: &TxError) -> bool {
    error.sql_state() == Some(SqlState::CHECK_VIOLATION.code())
}

/// Whether an insert was refused, and rolled back, in a way that need not hold for each of its entries. One that took too
/// long would only take as long again.
pub fn is_refused_for_its_values(error: &TxError) -> bool {
    match error {
        TxError::Refused(_) | TxError::Conflict(_) => {
            error.sql_state() != Some(SqlState::QUERY_CANCELED.code())
        }
        TxError::Unavailable(_) | TxError::Stale(_) | TxError::Abandoned(_) => false,
    }
}
