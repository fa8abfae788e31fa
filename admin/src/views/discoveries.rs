//! The trip discovery records of a client, and their traveler profile.

use super::find_client;
use crate::{AdminError, Newest, store};
use common::model::DiscoveryId;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio_postgres::Client;

/// A trip discovery record.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Discovery {
    /// UUIDv7 (D18).
    pub discovery_id: DiscoveryId,
    /// The record, as stored.
    pub discovery: Option<Box<RawValue>>,
    /// The profile of the traveler, repeated in each record; null until it is known.
    pub profile: Option<Box<RawValue>>,
    /// The profile's summary; null until it is known.
    pub essence: Option<String>,
}

/// The trip discovery records of the client with the id `id`.
pub async fn discoveries(
    client: &Client,
    tenant: &str,
    id: &str,
    limit: u32,
) -> Result<Newest<Discovery>, AdminError> {
    let (tenant, id) = find_client(client, tenant, id).await?;
    store::discoveries::newest(client, tenant, id, limit).await
}
