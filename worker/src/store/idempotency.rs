//! Responses of records writes, stored for retries (D17).

use super::{locks, write_rows};
use chrono::{DateTime, Utc};
use common::db::{Query, TxError};
use common::model::TenantId;
use common::write::Written;
use serde_json::value::RawValue;
use std::collections::HashMap;
use tokio_postgres::Row;

common::statements! {
    // Lock order: the keys are sorted, so that units with the same keys take the locks in the same order.
    const LOCK = "
    -- idempotency.lock
    SELECT pg_advisory_xact_lock(key) FROM unnest($1::bigint[]) AS key";

    const FIND = "
    -- idempotency.find
    SELECT i.* FROM unnest($1::uuid[], $2::text[], $3::text[]) AS w (tenant_id, key_prefix, key)
        CROSS JOIN LATERAL (SELECT tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body::text
                            FROM idempotency_keys
                            WHERE tenant_id = w.tenant_id AND key_prefix = w.key_prefix AND idempotency_key = w.key
                            LIMIT 1) AS i";

    const INSERT = "
    -- idempotency.insert
    INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body, created_at)
    SELECT tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body::json, $8
    FROM unnest($1::uuid[], $2::text[], $3::text[], $4::bytea[], $5::smallint[], $6::text[], $7::text[])
        AS r (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body)";
}

/// An `Idempotency-Key`. It is unique within an API key (D17).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct IdempotencyKey {
    pub(crate) tenant: TenantId,
    pub(crate) key_prefix: String,
    /// Value of the header.
    pub(crate) key: String,
}

#[derive(Clone, Debug)]
pub(crate) struct StoredResponse {
    /// Hash of the request's path and body. A retry has the same one.
    pub(crate) request_hash: Vec<u8>,
    pub(crate) written: Written,
}

/// The stored responses for a unit's keys.
#[derive(Debug, Default)]
pub(crate) struct StoredResponses(HashMap<IdempotencyKey, StoredResponse>);

/// The result of looking up an `Idempotency-Key`.
#[derive(Debug)]
pub(crate) enum IdempotencyClaim {
    /// No request has succeeded with this key.
    New,
    /// The same request has succeeded with this key; its stored response.
    SameRequest(Written),
    /// A different request has succeeded with this key.
    UsedByAnother,
}

/// Locks these keys until the transaction ends, then looks up the stored responses: of two concurrent requests with one
/// key one writes, and the other finds its response. Must be sent in this order, before everything else. All releases must
/// use the same lock keys.
pub(crate) fn claim_keys<'k>(keys: impl Iterator<Item = &'k IdempotencyKey>) -> Vec<Query<'static>> {
    let (mut locks, mut tenants, mut prefixes, mut texts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for IdempotencyKey { tenant, key_prefix, key } in keys {
        locks.push(locks::lock_key(tenant.0, "idempotency", &format!("{key_prefix}/{key}")));
        tenants.push(tenant.0);
        prefixes.push(key_prefix.clone());
        texts.push(key.clone());
    }
    if locks.is_empty() {
        return Vec::new();
    }
    locks.sort_unstable();
    let find = Query::new(FIND).bind(tenants).bind(prefixes).bind(texts);
    vec![Query::new(LOCK).bind(locks), find]
}

impl StoredResponses {
    /// Parses the rows of the queries of [`claim_keys`]; empty if there were no keys.
    pub(crate) fn parse(claimed: &[Vec<Row>]) -> Result<Self, TxError> {
        let rows = match claimed {
            [] => return Ok(Self::default()),
            [_locks, rows] => rows,
            _ => return Err(super::unreadable("idempotency keys")),
        };
        let mut stored = HashMap::with_capacity(rows.len());
        for row in rows {
            let mut columns = super::Columns::of(row);
            let tenant = TenantId(columns.take());
            let key = IdempotencyKey { tenant, key_prefix: columns.take(), key: columns.take() };
            let request_hash = columns.take();
            let status = u16::try_from(columns.take::<i16>()).map_err(|_| super::unreadable("status"))?;
            let etag = columns.take();
            let body = RawValue::from_string(columns.take()).map_err(|_| super::unreadable("response"))?;
            let written = Written { status, etag, replayed: true, body };
            stored.insert(key, StoredResponse { request_hash, written });
        }
        Ok(Self(stored))
    }

    /// Looks up a key. `request_hash` is the hash of the current request.
    pub(crate) fn claim(&self, key: &IdempotencyKey, request_hash: &[u8]) -> IdempotencyClaim {
        match self.0.get(key) {
            None => IdempotencyClaim::New,
            Some(stored) if stored.request_hash != request_hash => IdempotencyClaim::UsedByAnother,
            Some(stored) => IdempotencyClaim::SameRequest(stored.written.clone()),
        }
    }
}

pub(crate) fn store_responses(
    responses: &[(IdempotencyKey, StoredResponse)], now: DateTime<Utc>,
) -> Option<Query<'static>> {
    let responses: Vec<_> = responses.iter().map(|response| (response.0.tenant.0, response)).collect();
    write_rows!(
        INSERT,
        responses,
        |tenant, response| [
            tenant,
            response.0.key_prefix.clone(),
            response.0.key.clone(),
            response.1.request_hash.clone(),
            i16::try_from(response.1.written.status).unwrap_or_default(),
            response.1.written.etag.clone(),
            response.1.written.body.get().to_owned(),
        ],
        now
    )
}
