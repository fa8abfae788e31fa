//! The inbox thread of a lead.

use super::find_lead;
use crate::{AdminError, Newest, store};
use chrono::{DateTime, Utc};
use common::clock;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Client;

/// A message of a lead's inbox thread.
#[derive(Clone, Debug, Serialize)]
pub struct InboxMessage {
    /// When it was added.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// What it is about, such as `message`.
    pub kind: String,
    /// Its text; null for a message that lists changes only.
    pub text: Option<String>,
    /// The changes that it reports.
    pub changes: Option<Box<RawValue>>,
}

/// The inbox thread of the lead with the id `id`.
pub async fn inbox(
    client: &Client,
    tenant: &str,
    id: &str,
    limit: u32,
) -> Result<Newest<InboxMessage>, AdminError> {
    let (tenant, lead) = find_lead(client, tenant, id).await?;
    store::inbox_messages::newest(client, tenant, lead, limit).await
}
