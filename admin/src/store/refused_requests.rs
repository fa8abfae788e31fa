//! Refused requests that named a key.

use super::{all, newest, read_row};
use crate::{Newest, Result};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::TenantId;
use serde::Serialize;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// A request that was refused after it had named a key (D35).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedRequest {
    /// The tenant of the key.
    #[serde(skip)]
    pub tenant: TenantId,
    /// When it was refused.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// The method of the request.
    pub method: String,
    /// The path of its route, with placeholders in braces.
    pub route: String,
    /// The status of the response.
    pub status: i32,
    /// The check that failed, such as `stale`, or the code of the response, such as `invalid_request`.
    pub reason: String,
    /// What exactly; null if the reason says everything.
    pub detail: Option<String>,
    /// The key that the request named.
    pub key_prefix: String,
    /// The id of the request, as in the response header `X-Request-Id`.
    pub request_id: Uuid,
    /// The timestamp of the signature, in seconds since 1970.
    pub signed_at: Option<i64>,
    /// SHA-256 of the body as received, in hex; null for a body that was not hashed.
    pub body_sha256: Option<String>,
    /// The size of the body as received.
    pub body_bytes: i64,
    /// Whether it was a dry run, which is not counted.
    pub dry_run: bool,
}

macro_rules! columns {
    () => {
        "r.tenant_id, r.request_id, r.key_prefix, r.at, r.method, r.route, r.status, r.reason, r.detail, r.signed_at,
           encode(r.body_sha256, 'hex') AS body_sha256, r.body_bytes, r.dry_run"
    };
}

common::statements! {
    const OF_TENANT = concat!("-- refused_requests.of_tenant
    SELECT ", columns!(), "
    FROM refused_requests r WHERE r.tenant_id = $1 AND r.request_id < $2
    ORDER BY r.request_id DESC LIMIT $3");

    /// A prefix belongs to one tenant.
    const OF_KEY = concat!("-- refused_requests.of_key
    SELECT ", columns!(), "
    FROM refused_requests r
    WHERE r.key_prefix = $1 AND r.request_id < $2 AND r.tenant_id::text = $3::uuid::text
    ORDER BY r.request_id DESC LIMIT $4");

    const FIND = concat!("-- refused_requests.find
    SELECT ", columns!(), "
    FROM unnest($1::uuid[]) AS t (tenant_id)
    CROSS JOIN LATERAL (
        SELECT * FROM refused_requests r WHERE r.tenant_id = t.tenant_id AND r.request_id = $2 LIMIT 1
    ) r");
}

/// Those of a tenant, or of one of its keys, before the one with an id.
pub(crate) async fn before(
    client: &Client, tenant: TenantId, key: Option<&str>, before: Uuid, limit: u32,
) -> Result<Newest<RefusedRequest>> {
    match key {
        Some(key) => newest(client, OF_KEY, &[&key, &before, &tenant.0], limit, refused).await,
        None => newest(client, OF_TENANT, &[&tenant.0, &before], limit, refused).await,
    }
}

/// The refused request with this id, if it is of one of the tenants.
pub(crate) async fn find(client: &Client, tenants: &[Uuid], id: Uuid) -> Result<Option<RefusedRequest>> {
    Ok(all(client, FIND, &[&tenants, &id], refused).await?.into_iter().next())
}

fn refused(row: &Row) -> Result<RefusedRequest> {
    Ok(read_row!(row => RefusedRequest {
        tenant = "tenant_id" as TenantId, at, method, route, status, reason, detail, key_prefix, request_id,
        signed_at, body_sha256, body_bytes, dry_run
    }))
}
