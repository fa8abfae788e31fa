//! Timelines of clients.

use super::raw_json;
use crate::views::TimelineEntry;
use crate::{AdminError, Newest};
use common::model::{ClientId, TenantId};
use tokio_postgres::{Client, Row};

common::statements! {
    const NEWEST = "-- timeline.newest
    SELECT event_id, event_type, occurred_at, origin, payload::text AS payload
    FROM timeline WHERE tenant_id = $1 AND client_id = $2 ORDER BY entry_id DESC LIMIT (SELECT $3::bigint)";
}

pub(crate) async fn newest(
    client: &Client,
    tenant: TenantId,
    id: ClientId,
    limit: u32,
) -> Result<Newest<TimelineEntry>, AdminError> {
    super::newest(client, NEWEST, &[&tenant.0, &id.0], limit, entry).await
}

fn entry(row: &Row) -> Result<TimelineEntry, AdminError> {
    Ok(TimelineEntry {
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        occurred_at: row.try_get("occurred_at")?,
        origin: row.try_get("origin")?,
        payload: raw_json(row.try_get("payload")?)?,
    })
}
