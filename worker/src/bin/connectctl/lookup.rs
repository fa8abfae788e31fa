//! Finds what a command names, or says that it doesn't exist.

use crate::arguments::{OfClient, OfLead, OfTenant};
use crate::context::Context;
use anyhow::{anyhow, bail};
use common::model::{ClientId, LeadId, TenantId};

const TENANT: &str = "-- tenants.find
SELECT tenant_id FROM tenants WHERE slug = $1";

const CLIENT: &str = "-- clients.exists
SELECT FROM clients WHERE tenant_id = $1 AND client_id = $2";

const LEAD: &str = "-- leads.exists
SELECT FROM leads WHERE tenant_id = $1 AND lead_id = $2";

pub(crate) async fn tenant(context: &Context, named: &OfTenant) -> anyhow::Result<TenantId> {
    let row = context.database.query_opt(TENANT, &[&named.slug]).await?;
    let row = row.ok_or_else(|| no_tenant(&named.slug))?;
    Ok(TenantId(row.try_get("tenant_id")?))
}

pub(crate) fn no_tenant(slug: &str) -> anyhow::Error {
    anyhow!("no tenant {slug:?}")
}

pub(crate) async fn client(context: &Context, named: &OfClient) -> anyhow::Result<(TenantId, ClientId)> {
    let tenant = tenant(context, &named.tenant).await?;
    if let Some(client) = ClientId::parse(&named.client)
        && context.database.query_opt(CLIENT, &[&tenant.0, &client.0]).await?.is_some()
    {
        return Ok((tenant, client));
    }
    bail!("no client {:?} in tenant {:?}", named.client, named.tenant.slug)
}

pub(crate) async fn lead(context: &Context, named: &OfLead) -> anyhow::Result<(TenantId, LeadId)> {
    let tenant = tenant(context, &named.tenant).await?;
    if let Some(lead) = LeadId::parse(&named.lead)
        && context.database.query_opt(LEAD, &[&tenant.0, &lead.0]).await?.is_some()
    {
        return Ok((tenant, lead));
    }
    bail!("no lead {:?} in tenant {:?}", named.lead, named.tenant.slug)
}
