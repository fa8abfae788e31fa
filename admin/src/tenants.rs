//! Tenants and their settings.

use crate::audit::{Actor, AuditAction, record};
use crate::input::{EnquiryPrefix, MonthlyQuota, Name, TenantSlug};
use crate::transaction::transact;
use crate::{AdminError, store};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::TenantId;
use serde::{Deserialize, Serialize};
use tokio_postgres::{Client, GenericClient};
use uuid::Uuid;

/// A tenant to be created.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NewTenant {
    /// What callers send as `X-Connect-Tenant`.
    pub slug: TenantSlug,
    /// Full name, such as `Acme Travel`.
    pub name: Name,
    /// First part of the enquiry numbers.
    pub enquiry_prefix: EnquiryPrefix,
    /// Whether Traveller Discovery is on.
    pub discovery: bool,
    /// Records writes allowed in a calendar month (UTC).
    pub monthly_quota: MonthlyQuota,
    /// Records reads allowed per second and key, at least 1.
    pub reads_per_second: i32,
}

/// The settings of a tenant to be changed; `None` leaves a setting as it is.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TenantChanges {
    /// Whether Traveller Discovery is on.
    pub discovery: Option<bool>,
    /// Records writes allowed in a calendar month (UTC).
    pub monthly_quota: Option<MonthlyQuota>,
    /// Records reads allowed per second and key, at least 1.
    pub reads_per_second: Option<i32>,
}

/// A tenant with its settings.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tenant {
    /// UUIDv7 (D18).
    pub id: TenantId,
    /// What callers send as `X-Connect-Tenant`.
    pub slug: String,
    /// Full name, such as `Acme Travel`.
    pub name: String,
    /// First part of the enquiry numbers.
    pub enquiry_prefix: String,
    /// Whether Traveller Discovery is on.
    pub discovery: bool,
    /// Records writes allowed in a calendar month (UTC); null for no limit.
    pub monthly_quota: Option<i64>,
    /// Records reads allowed per second and key.
    pub reads_per_second: i32,
    /// When it was created.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
}

/// A tenant that was created.
#[derive(Clone, Debug, Serialize)]
pub struct CreatedTenant {
    /// UUIDv7 (D18).
    pub id: TenantId,
    /// What callers send as `X-Connect-Tenant`.
    pub slug: String,
}

/// Creates a tenant with a new id. Fails if the slug is taken.
pub async fn create(
    client: &mut Client,
    actor: &Actor,
    new: &NewTenant,
) -> Result<CreatedTenant, AdminError> {
    let (id, slug) = (TenantId(Uuid::now_v7()), new.slug.as_str().to_owned());
    let created = transact(client, async |tx| {
        store::tenants::create(tx, id, new).await?;
        record(tx, actor, AuditAction::CreateTenant, &slug, Some(id)).await
    });
    match created.await {
        Ok(()) => Ok(CreatedTenant { id, slug }),
        Err(error) if error.violates("tenants_slug_key") => Err(AdminError::TenantExists(slug)),
        Err(error) => Err(error),
    }
}

/// Changes the settings of the tenant with this slug.
pub async fn change(
    client: &mut Client,
    actor: &Actor,
    slug: &str,
    changes: &TenantChanges,
) -> Result<Tenant, AdminError> {
    transact(client, async |tx| {
        let changed = store::tenants::set(tx, slug, changes).await?;
        let changed = changed.ok_or_else(|| AdminError::TenantNotFound(slug.to_owned()))?;
        record(tx, actor, AuditAction::ChangeTenant, slug, Some(changed.id)).await?;
        Ok(changed)
    })
    .await
}

/// All tenants, in the order in which they were created.
pub async fn list(client: &Client) -> Result<Vec<Tenant>, AdminError> {
    store::tenants::list(client).await
}

/// The tenant with this slug and its settings.
pub async fn settings(client: &Client, slug: &str) -> Result<Tenant, AdminError> {
    let found = store::tenants::settings(client, slug).await?;
    found.ok_or_else(|| AdminError::TenantNotFound(slug.to_owned()))
}

/// The id of the tenant with this slug.
pub async fn find(on: &impl GenericClient, slug: &str) -> Result<TenantId, AdminError> {
    let found = store::tenants::find(on, slug).await?;
    found.ok_or_else(|| AdminError::TenantNotFound(slug.to_owned()))
}
