//! A client of a tenant.

use super::find_client;
use crate::{AdminError, Newest, store};
use chrono::{DateTime, Utc};
use common::model::{ClientId, LeadId};
use tokio_postgres::Client;

/// A client as the settings area shows it.
#[derive(Clone, Debug)]
pub struct ShownClient {
    /// UUIDv7 (D18).
    pub id: ClientId,
    /// Full name.
    pub name: String,
    /// As sent.
    pub email: Option<String>,
    /// As sent.
    pub phone: Option<String>,
    /// Label.
    pub company: Option<String>,
    /// The caller's own id for the person.
    pub external_id: Option<String>,
    /// `individual` or `company`.
    pub client_type: String,
    /// Whether they agreed to marketing.
    pub marketing_opt_in: bool,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// A lead in the list of a client's leads.
#[derive(Clone, Debug)]
pub struct ClientLead {
    /// UUIDv7 (D18).
    pub id: LeadId,
    /// `<prefix>-<year>-<six digits>`.
    pub enquiry_number: String,
    /// Title advisors see.
    pub title: String,
    /// Name of the stage.
    pub stage: String,
}

/// The client with the id `id`.
pub async fn client(client: &Client, tenant: &str, id: &str) -> Result<ShownClient, AdminError> {
    let (tenant_id, client_id) = find_client(client, tenant, id).await?;
    let found = store::clients::shown(client, tenant_id, client_id).await?;
    found.ok_or_else(|| AdminError::ClientNotFound { client: id.to_owned(), tenant: tenant.to_owned() })
}

/// The leads of the client with the id `id`.
pub async fn leads_of(
    client: &Client,
    tenant: &str,
    id: &str,
    limit: u32,
) -> Result<Newest<ClientLead>, AdminError> {
    let (tenant_id, client_id) = find_client(client, tenant, id).await?;
    store::leads::of_client(client, tenant_id, client_id, limit).await
}
