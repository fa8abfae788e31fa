//! The timeline of a client (D14).

use super::find_client;
use crate::{AdminError, Newest, store};
use chrono::{DateTime, Utc};
use common::clock;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Client;

/// An accepted event about a client.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    /// As the partner sent it.
    pub event_id: String,
    /// Such as `contact.identified`.
    pub event_type: String,
    /// When it happened, as the partner said.
    #[serde(serialize_with = "clock::serialize")]
    pub occurred_at: DateTime<Utc>,
    /// Name of the system that emitted it: the origin of its key.
    pub origin: String,
    /// The event's payload, as sent.
    pub payload: Option<Box<RawValue>>,
}

/// The timeline of the client with the id `id`.
pub async fn timeline(
    client: &Client,
    tenant: &str,
    id: &str,
    limit: u32,
) -> Result<Newest<TimelineEntry>, AdminError> {
    let (tenant, id) = find_client(client, tenant, id).await?;
    store::timeline::newest(client, tenant, id, limit).await
}
