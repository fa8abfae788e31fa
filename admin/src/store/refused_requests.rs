//! Refused requests that named a key.

use super::{all, newest};
use crate::refusals::RefusedRequest;
use crate::{AdminError, Newest};
use common::model::TenantId;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

macro_rules! columns {
    () => {
        "r.tenant_id, r.request_id, r.key_prefix, r.at, r.method, r.route, r.status, r.reason, r.detail, r.signed_at,
           encode(r.body_sha256, 'hex') AS body_sha256, r.body_bytes"
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
    client: &Client,
    tenant: TenantId,
    key: Option<&str>,
    before: Uuid,
    limit: u32,
) -> Result<Newest<RefusedRequest>, AdminError> {
    match key {
        Some(key) => newest(client, OF_KEY, &[&key, &before, &tenant.0], limit, refused).await,
        None => newest(client, OF_TENANT, &[&tenant.0, &before], limit, refused).await,
    }
}

/// The refused request with this id, if it is of one of the tenants.
pub(crate) async fn find(
    client: &Client,
    tenants: &[Uuid],
    id: Uuid,
) -> Result<Option<RefusedRequest>, AdminError> {
    Ok(all(client, FIND, &[&tenants, &id], refused).await?.into_iter().next())
}

fn refused(row: &Row) -> Result<RefusedRequest, AdminError> {
    Ok(RefusedRequest {
        tenant: TenantId(row.try_get("tenant_id")?),
        at: row.try_get("at")?,
        method: row.try_get("method")?,
        route: row.try_get("route")?,
        status: row.try_get("status")?,
        reason: row.try_get("reason")?,
        detail: row.try_get("detail")?,
        key_prefix: row.try_get("key_prefix")?,
        request_id: row.try_get("request_id")?,
        signed_at: row.try_get("signed_at")?,
        body_sha256: row.try_get("body_sha256")?,
        body_bytes: row.try_get("body_bytes")?,
    })
}
