//! Company accounts, which people on the company's mail domain join (D13).

use crate::audit::{Actor, AuditAction, record};
use crate::input::{CompanyDomain, Name};
use crate::transaction::transact;
use crate::{AdminError, store, tenants};
use common::model::ClientId;
use serde::Serialize;
use tokio_postgres::Client;
use uuid::Uuid;

/// A company account that was created.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreatedCompany {
    /// UUIDv7 (D18).
    pub client_id: ClientId,
}

/// Creates a company account. People whose email is on its domain join it from then on.
pub async fn create(
    client: &mut Client,
    actor: &Actor,
    tenant: &str,
    name: &Name,
    domain: &CompanyDomain,
) -> Result<CreatedCompany, AdminError> {
    let client_id = ClientId(Uuid::now_v7());
    let created = transact(client, async |tx| {
        let tenant = tenants::find(tx, tenant).await?;
        store::clients::create_company_account(tx, tenant, client_id, name, domain).await?;
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
