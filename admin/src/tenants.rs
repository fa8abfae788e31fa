//! Tenants: their settings, members, who own their leads, company accounts, which people on the company's mail domain join (D13),
//! metered records writes (D23), and tenants whose requests are refused because too much of their work waits to be applied.

use crate::audit::{Actor, AuditAction, record};
use crate::input::{CompanyDomain, MemberEmail, Name};
pub use crate::store::tenants::{Member, NewTenant, Pressure, Tenant, TenantChanges, Usage, find};
use crate::{AdminError, Result, store, transact};
use chrono::{Datelike as _, Months, NaiveDate};
use common::clock;
use common::model::{ClientId, TenantId};
use common::settings::Bound;
use serde::Serialize;
use tokio_postgres::Client;
use uuid::Uuid;

/// A tenant that was created.
#[derive(Clone, Debug, Serialize)]
pub struct CreatedTenant {
    /// UUIDv7 (D18).
    pub id: TenantId,
    /// What callers send as `X-Connect-Tenant`.
    pub slug: String,
}

/// Creates a tenant with a new id. Fails if the slug is taken.
pub async fn create(client: &mut Client, actor: &Actor, new: &NewTenant) -> Result<CreatedTenant> {
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
pub async fn change(client: &mut Client, actor: &Actor, slug: &str, changes: &TenantChanges) -> Result<Tenant> {
    transact(client, async |tx| {
        let changed = store::tenants::set(tx, slug, changes).await?;
        let changed = changed.ok_or_else(|| AdminError::TenantNotFound(slug.to_owned()))?;
        record(tx, actor, AuditAction::ChangeTenant, slug, Some(changed.id)).await?;
        Ok(changed)
    })
    .await
}

/// All tenants, in the order in which they were created.
pub async fn list(client: &Client) -> Result<Vec<Tenant>> {
    store::tenants::list(client).await
}

/// The tenant with this slug and its settings.
pub async fn settings(client: &Client, slug: &str) -> Result<Tenant> {
    let found = store::tenants::settings(client, slug).await?;
    found.ok_or_else(|| AdminError::TenantNotFound(slug.to_owned()))
}

/// A company account that was created.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedCompany {
    /// UUIDv7 (D18).
    pub client_id: ClientId,
}

/// Creates a company account. People whose email is on its domain join it from then on.
pub async fn create_company(
    client: &mut Client, actor: &Actor, tenant: &str, name: &Name, domain: &CompanyDomain,
) -> Result<CreatedCompany> {
    let client_id = ClientId(Uuid::now_v7());
    let created = transact(client, async |tx| {
        let tenant = find(tx, tenant).await?;
        store::records::create_company_account(tx, tenant, client_id, name, domain).await?;
        record(tx, actor, AuditAction::CreateCompany, &client_id.to_string(), Some(tenant)).await
    });
    match created.await {
        Ok(()) => Ok(CreatedCompany { client_id }),
        Err(error) if error.violates("clients_tenant_company_domain_key") => {
            Err(AdminError::CompanyExists(domain.as_str().to_owned()))
        }
        Err(error) => Err(error),
    }
}

/// Adds a member, or restores a removed one. Changes the name of an existing one. Refused if the tenant has as many other active
/// members as `bound` allows.
pub async fn add_member(
    client: &mut Client, actor: &Actor, (tenant, bound): (&str, Bound), email: &MemberEmail, name: &Name,
) -> Result<Member> {
    transact(client, async |tx| {
        let tenant = find(tx, tenant).await?;
        let added = store::tenants::add_member(tx, tenant, email, name, bound).await?;
        let added = added.ok_or(AdminError::BoundReached { what: "active members", bound })?;
        record(tx, actor, AuditAction::AddMember, email.as_str(), Some(tenant)).await?;
        Ok(added)
    })
    .await
}

/// Removes a member: no new lead is routed to them. They keep the leads that they own.
pub async fn remove_member(client: &mut Client, actor: &Actor, tenant: &str, email: &MemberEmail) -> Result<Member> {
    let not_found = || AdminError::MemberNotFound { email: email.as_str().to_owned(), tenant: tenant.to_owned() };
    transact(client, async |tx| {
        let id = find(tx, tenant).await?;
        let removed = store::tenants::remove_member(tx, id, email).await?.ok_or_else(not_found)?;
        record(tx, actor, AuditAction::RemoveMember, email.as_str(), Some(id)).await?;
        Ok(removed)
    })
    .await
}

/// The first `limit` members of a tenant after the email `after`, removed ones included, in the order of their emails.
pub async fn list_members(client: &Client, tenant: &str, after: &str, limit: u32) -> Result<Vec<Member>> {
    let tenant = find(client, tenant).await?;
    store::tenants::list_members(client, tenant, after, limit).await
}

/// The records writes of the last `months` calendar months, the current one last; months without a write have 0.
pub async fn usage_of_last_months(client: &Client, tenant: TenantId, months: u32) -> Result<Vec<(String, i64)>> {
    let today = clock::database_now().date_naive();
    let current = today.with_day(1).unwrap_or(today);
    let all: Vec<NaiveDate> =
        (0..months).rev().filter_map(|ago| current.checked_sub_months(Months::new(ago))).collect();
    let first = all.first().copied().unwrap_or(current);
    let counted = store::tenants::usage_since(client, tenant, first).await?;
    let writes =
        |month: &NaiveDate| counted.iter().find(|(counted, _)| counted == month).map_or(0, |(_, writes)| *writes);
    Ok(all.iter().map(|month| (month.format("%Y-%m").to_string(), writes(month))).collect())
}

/// The records writes of the current month.
pub async fn usage_of_this_month(client: &Client, tenant: &str) -> Result<Usage> {
    let today = clock::database_now().date_naive();
    let month = today.with_day(1).unwrap_or(today);
    let usage = store::tenants::usage_of_month(client, tenant, month).await?;
    usage.ok_or_else(|| AdminError::TenantNotFound(tenant.to_owned()))
}

/// The tenants of the last ten minutes, the one with the most refusals last.
pub async fn pressures(client: &Client) -> Result<Vec<Pressure>> {
    store::tenants::pressures(client).await
}
