//! The CRM's views of a tenant: its leads, the bookings and inbox of a lead, the timeline and discovery records of a client,
//! and the notifications of its members. Each lists the newest items, newest last.

pub use crate::store::records::{ClientLead, Credit, PipelineFilter, PipelineLead};
pub use crate::store::streams::{Discovery, InboxMessage, Invoice, Notification, TimelineEntry};
use crate::{AdminError, Newest, Result, store, tenants};
use common::model::{ClientId, LeadId, TenantId};
use common::view::ClientView;
use tokio_postgres::Client;

/// Finds a client of the tenant with the slug `tenant`.
async fn find_client(client: &Client, tenant: &str, id: &str) -> Result<(TenantId, ClientId)> {
    let tenant_id = tenants::find(client, tenant).await?;
    if let Some(client_id) = ClientId::parse(id)
        && store::records::is_known_client(client, tenant_id, client_id).await?
    {
        return Ok((tenant_id, client_id));
    }
    Err(AdminError::ClientNotFound { client: id.to_owned(), tenant: tenant.to_owned() })
}

/// Finds a lead of the tenant with the slug `tenant`.
async fn find_lead(client: &Client, tenant: &str, id: &str) -> Result<(TenantId, LeadId)> {
    let tenant_id = tenants::find(client, tenant).await?;
    if let Some(lead) = LeadId::parse(id)
        && store::records::is_known_lead(client, tenant_id, lead).await?
    {
        return Ok((tenant_id, lead));
    }
    Err(AdminError::LeadNotFound { lead: id.to_owned(), tenant: tenant.to_owned() })
}

/// The leads of a tenant.
pub async fn pipeline(
    client: &Client, tenant: &str, filter: &PipelineFilter, limit: u32,
) -> Result<Newest<PipelineLead>> {
    let tenant = tenants::find(client, tenant).await?;
    store::records::pipeline(client, tenant, filter, limit).await
}

/// The lead with the id `id`.
pub async fn lead(client: &Client, tenant: &str, id: &str) -> Result<PipelineLead> {
    let (tenant_id, lead) = find_lead(client, tenant, id).await?;
    let found = store::records::shown_lead(client, tenant_id, lead).await?;
    found.ok_or_else(|| AdminError::LeadNotFound { lead: id.to_owned(), tenant: tenant.to_owned() })
}

/// The client with the id `id`, without its roster.
pub async fn client(client: &Client, tenant: &str, id: &str) -> Result<ClientView> {
    let (tenant_id, client_id) = find_client(client, tenant, id).await?;
    let found = store::records::shown_client(client, tenant_id, client_id).await?;
    found.ok_or_else(|| AdminError::ClientNotFound { client: id.to_owned(), tenant: tenant.to_owned() })
}

/// The leads of the client with the id `id`.
pub async fn leads_of(client: &Client, tenant: &str, id: &str, limit: u32) -> Result<Newest<ClientLead>> {
    let (tenant_id, client_id) = find_client(client, tenant, id).await?;
    store::records::leads_of_client(client, tenant_id, client_id, limit).await
}

/// The inbox thread of the lead with the id `id`.
pub async fn inbox(client: &Client, tenant: &str, id: &str, limit: u32) -> Result<Newest<InboxMessage>> {
    let (tenant, lead) = find_lead(client, tenant, id).await?;
    store::streams::inbox(client, tenant, lead, limit).await
}

/// The bookings of the lead with the id `id`.
pub async fn invoices(client: &Client, tenant: &str, id: &str, limit: u32) -> Result<Newest<Invoice>> {
    let (tenant, lead) = find_lead(client, tenant, id).await?;
    store::streams::invoices(client, tenant, lead, limit).await
}

/// The timeline of the client with the id `id`.
pub async fn timeline(client: &Client, tenant: &str, id: &str, limit: u32) -> Result<Newest<TimelineEntry>> {
    let (tenant, id) = find_client(client, tenant, id).await?;
    store::streams::timeline(client, tenant, id, limit).await
}

/// The trip discovery records of the client with the id `id`.
pub async fn discoveries(client: &Client, tenant: &str, id: &str, limit: u32) -> Result<Newest<Discovery>> {
    let (tenant, id) = find_client(client, tenant, id).await?;
    store::streams::discoveries(client, tenant, id, limit).await
}

/// The notifications of a tenant's members.
pub async fn notifications(client: &Client, tenant: &str, limit: u32) -> Result<Newest<Notification>> {
    let tenant = tenants::find(client, tenant).await?;
    store::streams::notifications(client, tenant, limit).await
}
