//! Clients.

use super::{execute, exists, one};
use crate::AdminError;
use crate::input::{CompanyDomain, Name};
use crate::views::ShownClient;
use common::clock;
use common::model::{ClientId, TenantId};
use tokio_postgres::{Client, Row, Transaction};

common::statements! {
    const EXISTS = "-- clients.exists
    SELECT FROM clients WHERE tenant_id = $1 AND client_id = $2";

    const SHOWN = "-- clients.shown
    SELECT client_id, name, email, phone, company, external_id, client_type, marketing_opt_in, created_at, updated_at
    FROM clients WHERE tenant_id = $1 AND client_id = $2";

    const CREATE_COMPANY = "-- clients.create_company
    INSERT INTO clients (tenant_id, client_id, name, client_type, company_domain, created_at, updated_at)
    VALUES ($1, $2, $3, 'company', $4, $5, $5)";
}

pub(crate) async fn is_known(client: &Client, tenant: TenantId, id: ClientId) -> Result<bool, AdminError> {
    exists(client, EXISTS, &[&tenant.0, &id.0]).await
}

/// A client as it is shown.
pub(crate) async fn shown(
    client: &Client,
    tenant: TenantId,
    id: ClientId,
) -> Result<Option<ShownClient>, AdminError> {
    let read = |row: &Row| {
        Ok(ShownClient {
            id: ClientId(row.try_get("client_id")?),
            name: row.try_get("name")?,
            email: row.try_get("email")?,
            phone: row.try_get("phone")?,
            company: row.try_get("company")?,
            external_id: row.try_get("external_id")?,
            client_type: row.try_get("client_type")?,
            marketing_opt_in: row.try_get("marketing_opt_in")?,
            created_at: row.try_get("created_at")?,
            updated_at: row.try_get("updated_at")?,
        })
    };
    one(client, SHOWN, &[&tenant.0, &id.0], read).await
}

/// Creates a company account, which is a client.
pub(crate) async fn create_company_account(
    tx: &Transaction<'_>,
    tenant: TenantId,
    id: ClientId,
    name: &Name,
    domain: &CompanyDomain,
) -> Result<(), AdminError> {
    let (name, domain) = (name.as_str(), domain.as_str());
    execute(tx, CREATE_COMPANY, &[&tenant.0, &id.0, &name, &domain, &clock::now()]).await?;
    Ok(())
}
