//! The notifications of a tenant's members.

use crate::{AdminError, Newest, store, tenants};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::LeadId;
use serde::Serialize;
use tokio_postgres::Client;

/// A notification of a member.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// When it was created.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// Email of the member.
    pub to: String,
    /// Such as `lead_assigned`.
    pub kind: String,
    /// The lead that it is about.
    pub lead_id: Option<LeadId>,
    /// The text that the member sees.
    pub text: String,
}

/// The notifications of a tenant's members.
pub async fn notifications(
    client: &Client,
    tenant: &str,
    limit: u32,
) -> Result<Newest<Notification>, AdminError> {
    let tenant = tenants::find(client, tenant).await?;
    store::notifications::newest(client, tenant, limit).await
}
