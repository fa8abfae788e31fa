//! Responses of records writes, kept for their retries (D17).

use super::locks;
use chrono::{DateTime, Utc};
use common::db::{Query, TxError};
use common::write::{WriteMeta, Written};
use serde_json::value::RawValue;
use tokio_postgres::Row;

pub(super) const LOCK: &str = "
    -- idempotency.lock
    SELECT pg_advisory_xact_lock($1)";

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
pub(crate) enum IdempotencyClaim {
    /// No request has succeeded with it.
    New,
    /// This request has succeeded with it.
    Answered(Written),
    /// Another request has.
    UsedByAnother,
}

/// Looks up the request's key and keeps others with the same key waiting until the transaction ends: of two at once one
/// writes, the other finds its response. To be sent in this order.
pub(crate) fn claim_key(meta: &WriteMeta, key: &str) -> [Query<'static>; 2] {
    let (tenant, prefix) = (meta.caller.tenant_id.0, meta.caller.key.as_str());
    let lock = locks::hash(tenant, "idempotency", &format!("{prefix}/{key}"));
    let find = Query::new(FIND).bind(tenant).bind(prefix.to_owned()).bind(key.to_owned());
    [Query::new(LOCK).bind(lock), find]
}

impl IdempotencyClaim {
    /// Reads what the second query of [`claim_key`] found; `hash` is the request's.
    pub(crate) fn read(rows: &[Row], hash: &[u8]) -> Result<Self, TxError> {
        let Some(row) = rows.first() else { return Ok(Self::New) };
        if row.get::<_, &[u8]>(0) != hash {
            return Ok(Self::UsedByAnother);
        }
        let body = RawValue::from_string(row.get(3)).map_err(|_| super::unreadable("response"))?;
        let etag: Option<String> = row.get(2);
        let status = u16::try_from(row.get::<_, i16>(1)).map_err(|_| super::unreadable("status"))?;
        Ok(Self::Answered(Written { status, etag: etag.unwrap_or_default(), replayed: true, body }))
    }
}

/// Keeps the response of a success.
pub(crate) fn keep_response(
    meta: &WriteMeta,
    key: &str,
    hash: Vec<u8>,
    written: &Written,
    now: DateTime<Utc>,
) -> Query<'static> {
    let (tenant, prefix) = (meta.caller.tenant_id.0, meta.caller.key.as_str().to_owned());
    let status = i16::try_from(written.status).unwrap_or_default();
    let (etag, body) = (written.etag.clone(), written.body.get().to_owned());
    let query = Query::new(INSERT).bind(tenant).bind(prefix).bind(key.to_owned()).bind(hash);
    query.bind(status).bind(etag).bind(body).bind(now)
}
