//! Tenants.

use super::{all, execute, one};
use crate::AdminError;
use crate::input::MonthlyQuota;
use crate::tenants::{NewTenant, Tenant, TenantChanges};
use common::clock;
use common::model::TenantId;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, GenericClient, Row, Transaction};

common::statements! {
    const CREATE = "-- tenants.create
    INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";

    const SET = "-- tenants.set
    UPDATE tenants SET
        discovery_enabled = COALESCE($2, discovery_enabled),
        monthly_quota = CASE WHEN $3 THEN $4 ELSE monthly_quota END,
        reads_per_second = COALESCE($5, reads_per_second)
    WHERE slug = $1
    RETURNING tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at";

    const LIST = "-- tenants.list
    SELECT tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at
    FROM tenants ORDER BY tenant_id";

    const SETTINGS = "-- tenants.settings
    SELECT tenant_id, slug, name, enquiry_prefix, discovery_enabled, monthly_quota, reads_per_second, created_at
    FROM tenants WHERE slug = $1";

    const FIND = "-- tenants.find
    SELECT tenant_id FROM tenants WHERE slug = $1";
}

pub(crate) async fn create(tx: &Transaction<'_>, id: TenantId, new: &NewTenant) -> Result<(), AdminError> {
    let (slug, name, prefix) = (new.slug.as_str(), new.name.as_str(), new.enquiry_prefix.as_str());
    let quota = new.monthly_quota.limit();
    let parameters: [&(dyn ToSql + Sync); 8] =
        [&id.0, &slug, &name, &prefix, &new.discovery, &quota, &new.reads_per_second, &clock::now()];
    execute(tx, CREATE, &parameters).await?;
    Ok(())
}

pub(crate) async fn set(
    tx: &Transaction<'_>,
    slug: &str,
    changes: &TenantChanges,
) -> Result<Option<Tenant>, AdminError> {
    let TenantChanges { discovery, monthly_quota, reads_per_second } = changes;
    let quota = monthly_quota.and_then(MonthlyQuota::limit);
    one(tx, SET, &[&slug, discovery, &monthly_quota.is_some(), &quota, reads_per_second], tenant).await
}

pub(crate) async fn list(client: &Client) -> Result<Vec<Tenant>, AdminError> {
    all(client, LIST, &[], tenant).await
}

pub(crate) async fn settings(client: &Client, slug: &str) -> Result<Option<Tenant>, AdminError> {
    one(client, SETTINGS, &[&slug], tenant).await
}

pub(crate) async fn find(on: &impl GenericClient, slug: &str) -> Result<Option<TenantId>, AdminError> {
    one(on, FIND, &[&slug], |row| Ok(TenantId(row.try_get("tenant_id")?))).await
}

fn tenant(row: &Row) -> Result<Tenant, AdminError> {
    Ok(Tenant {
        id: TenantId(row.try_get("tenant_id")?),
        slug: row.try_get("slug")?,
        name: row.try_get("name")?,
        enquiry_prefix: row.try_get("enquiry_prefix")?,
        discovery: row.try_get("discovery_enabled")?,
        monthly_quota: row.try_get("monthly_quota")?,
        reads_per_second: row.try_get("reads_per_second")?,
        created_at: row.try_get("created_at")?,
    })
}
