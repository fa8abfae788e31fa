//! Notifications of members.

use crate::views::Notification;
use crate::{AdminError, Newest};
use common::model::{LeadId, TenantId};
use tokio_postgres::{Client, Row};
use uuid::Uuid;

common::statements! {
    const NEWEST = "-- notifications.newest
    SELECT at, recipient, kind, lead_id, text
    FROM notifications WHERE tenant_id = $1 ORDER BY notification_id DESC LIMIT (SELECT $2::bigint)";
}

pub(crate) async fn newest(
    client: &Client,
    tenant: TenantId,
    limit: u32,
) -> Result<Newest<Notification>, AdminError> {
    super::newest(client, NEWEST, &[&tenant.0], limit, notification).await
}

fn notification(row: &Row) -> Result<Notification, AdminError> {
    Ok(Notification {
        at: row.try_get("at")?,
        to: row.try_get("recipient")?,
        kind: row.try_get("kind")?,
        lead_id: row.try_get::<_, Option<Uuid>>("lead_id")?.map(LeadId),
        text: row.try_get("text")?,
    })
}
