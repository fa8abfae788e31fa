//! Answers of records writes, kept for their retries (D17), and the ledger's word on a write that is redelivered.

use super::{execute, locks, query};
use chrono::{DateTime, Utc};
use common::db::TxError;
use common::write::{WriteMeta, Written};
use deadpool_postgres::Transaction;
use serde_json::value::RawValue;

pub(super) const FIND: &str = "
    -- idempotency.find
    SELECT request_hash, status, etag, body::text FROM idempotency_keys
    WHERE tenant_id = $1 AND key_prefix = $2 AND idempotency_key = $3";

pub(super) const INSERT: &str = "
    -- idempotency.insert
    INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7::text::json, $8)";

/// What is known of an `Idempotency-Key`.
#[derive(Debug)]
pub enum Known {
    /// It never succeeded.
    New,
    /// This request succeeded with it.
    Answered(Written),
    /// Another request did.
    Other,
}

/// Looks the request's key up and keeps others with the same key waiting until the transaction ends. Of two at once one
/// writes, the other finds its answer.
pub async fn claim(tx: &Transaction<'_>, meta: &WriteMeta, key: &str, hash: &[u8]) -> Result<Known, TxError> {
    let (tenant, prefix) = (meta.caller.tenant_id.0, meta.caller.key.as_str());
    locks::take_one(tx, meta.caller.tenant_id, "idempotency", &format!("{prefix}/{key}")).await?;
    let rows = query(tx, FIND, &[&tenant, &prefix, &key]).await?;
    let Some(row) = rows.first() else { return Ok(Known::New) };
    if row.get::<_, &[u8]>(0) != hash {
        return Ok(Known::Other);
    }
    let body = RawValue::from_string(row.get(3)).map_err(|_| super::unreadable("answer"))?;
    let etag: Option<String> = row.get(2);
    let status = u16::try_from(row.get::<_, i16>(1)).map_err(|_| super::unreadable("status"))?;
    Ok(Known::Answered(Written { status, etag: etag.unwrap_or_default(), replayed: true, body }))
}

/// Keeps the answer of a success.
pub async fn keep(
    tx: &Transaction<'_>,
    meta: &WriteMeta,
    key: &str,
    hash: &[u8],
    written: &Written,
    now: DateTime<Utc>,
) -> Result<(), TxError> {
    let (tenant, prefix) = (meta.caller.tenant_id.0, meta.caller.key.as_str());
    let status = i16::try_from(written.status).unwrap_or_default();
    let body = written.body.get();
    execute(tx, INSERT, &[&tenant, &prefix, &key, &hash, &status, &written.etag, &body, &now]).await
}
