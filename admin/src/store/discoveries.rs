//! Trip discovery records.

use super::raw_json;
use crate::views::Discovery;
use crate::{AdminError, Newest};
use common::model::{ClientId, DiscoveryId, TenantId};
use tokio_postgres::{Client, Row};

common::statements! {
    const NEWEST = "-- discoveries.newest
    SELECT d.discovery_id, d.discovery::text AS discovery, p.profile::text AS profile, p.essence
    FROM discoveries d LEFT JOIN traveller_profiles p USING (tenant_id, client_id)
    WHERE d.client_id = $2 AND d.tenant_id IS NOT DISTINCT FROM $1::uuid ORDER BY d.discovery_id DESC LIMIT $3";
}

pub(crate) async fn newest(
    client: &Client,
    tenant: TenantId,
    id: ClientId,
    limit: u32,
) -> Result<Newest<Discovery>, AdminError> {
    super::newest(client, NEWEST, &[&tenant.0, &id.0], limit, discovery).await
}

fn discovery(row: &Row) -> Result<Discovery, AdminError> {
    Ok(Discovery {
        discovery_id: DiscoveryId(row.try_get("discovery_id")?),
        discovery: raw_json(row.try_get("discovery")?)?,
        profile: raw_json(row.try_get("profile")?)?,
        essence: row.try_get("essence")?,
    })
}
