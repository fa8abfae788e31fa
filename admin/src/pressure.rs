//! Tenants whose requests are refused because too much of their work waits to be applied.

use crate::{AdminError, store};
use chrono::{DateTime, Utc};
use common::clock;
use serde::Serialize;
use tokio_postgres::Client;

/// What the copies of ingest have reported of a tenant and queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// Slug of the tenant.
    pub tenant: String,
    /// The queue, without the prefix.
    pub queue: String,
    /// Backlog units that wait to be applied; 0 when the reports are outdated.
    pub waiting: i64,
    /// Requests that were refused in the last second; 0 when the reports are outdated.
    pub refused: i64,
    /// When the last report was made.
    #[serde(serialize_with = "clock::serialize")]
    pub reported_at: DateTime<Utc>,
}

/// The tenants of the last ten minutes, the one with the most refusals last.
pub async fn list(client: &Client) -> Result<Vec<Pressure>, AdminError> {
    store::intake_pressure::list(client).await
}
