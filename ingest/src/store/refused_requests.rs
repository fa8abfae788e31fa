//! `refused_requests`: why requests that named a key were refused (D35).

use super::prepared;
use chrono::{DateTime, Utc};
use common::db::{Client, column};
use common::model::KeyPrefix;
use hyper::Method;
use tokio_postgres::Error;
use uuid::Uuid;

common::statements! {
    /// Adds those of existing keys. The caller need not know whether a key exists.
    const ADD = "-- refused_requests.add
    INSERT INTO refused_requests (tenant_id, request_id, key_prefix, at, method, route, status, reason, detail,
                                  signed_at, body_sha256, body_bytes, dry_run)
    SELECT k.tenant_id, r.request_id, r.key_prefix, r.at, r.method, r.route, r.status, r.reason, r.detail,
           r.signed_at, r.body_sha256, r.body_bytes, r.dry_run
    FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::text[],
                $9::bigint[], $10::bytea[], $11::bigint[], $12::boolean[])
        AS r (request_id, key_prefix, at, method, route, status, reason, detail, signed_at, body_sha256, body_bytes,
              dry_run)
    CROSS JOIN LATERAL (SELECT tenant_id FROM api_keys k WHERE k.prefix = r.key_prefix LIMIT 1) AS k";
}

/// A refused request that names a key.
#[derive(Clone, Debug)]
pub(crate) struct RefusedRow {
    pub(crate) request_id: Uuid,
    pub(crate) key: KeyPrefix,
    pub(crate) at: DateTime<Utc>,
    pub(crate) method: Method,
    pub(crate) route: &'static str,
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) detail: Option<String>,
    pub(crate) signed_at: Option<i64>,
    pub(crate) body_sha256: Option<[u8; 32]>,
    pub(crate) body_bytes: usize,
    pub(crate) dry_run: bool,
}

/// Adds those whose key exists, and returns their number.
pub(crate) async fn add(client: &Client, rows: &[RefusedRow]) -> Result<u64, Error> {
    let statement = prepared(client, ADD).await?;
    client
        .execute(
            &statement,
            &[
                &column(rows, |row| row.request_id),
                &column(rows, |row| row.key.as_str()),
                &column(rows, |row| row.at),
                &column(rows, |row| row.method.as_str()),
                &column(rows, |row| row.route),
                &column(rows, |row| i32::from(row.status)),
                &column(rows, |row| row.reason.as_str()),
                &column(rows, |row| row.detail.as_deref()),
                &column(rows, |row| row.signed_at),
                &column(rows, |row| row.body_sha256.as_ref().map(<[u8; 32]>::as_slice)),
                &column(rows, |row| i64::try_from(row.body_bytes).unwrap_or(i64::MAX)),
                &column(rows, |row| row.dry_run),
            ],
        )
        .await
}
