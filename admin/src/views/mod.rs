//! The CRM's views of a tenant: its leads, the bookings and inbox of a lead, the timeline and discovery records of a client,
//! and the notifications of its members. Each lists the newest items, newest last.

mod client;
mod discoveries;
mod inbox;
mod invoices;
mod notifications;
mod pipeline;
mod timeline;

pub use client::{ClientLead, ShownClient, client, leads_of};
pub use discoveries::{Discovery, discoveries};
pub use inbox::{InboxMessage, inbox};
pub use invoices::{Invoice, invoices};
pub use notifications::{Notification, notifications};
pub use pipeline::{Credit, PipelineFilter, PipelineLead, lead, pipeline};
pub use timeline::{TimelineEntry, timeline};

use crate::{AdminError, store, tenants};
use common::model::{ClientId, LeadId, TenantId};
use tokio_postgres::Client;

/// Finds a client of the tenant with the slug `tenant`.
async fn find_client(client: &Client, tenant: &str, id: &str) -> Result<(TenantId, ClientId), AdminError> {
    let tenant_id = tenants::find(client, tenant).await?;
    if let Some(client_id) = ClientId::parse(id)
        && store::clients::is_known(client, tenant_id, client_id).await?
    {
        return Ok((tenant_id, client_id));
    }
    Err(AdminError::ClientNotFound { client: id.to_owned(), tenant: tenant.to_owned() })
}

/// Finds a lead of the tenant with the slug `tenant`.
async fn find_lead(client: &Client, tenant: &str, id: &str) -> Result<(TenantId, LeadId), AdminError> {
    let tenant_id = tenants::find(client, tenant).await?;
    if let Some(lead) = LeadId::parse(id)
        && store::leads::is_known(client, tenant_id, lead).await?
    {
        return Ok((tenant_id, lead));
    }
    Err(AdminError::LeadNotFound { lead: id.to_owned(), tenant: tenant.to_owned() })
}
