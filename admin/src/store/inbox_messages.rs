//! Inbox threads of leads.

use super::raw_json;
use crate::views::InboxMessage;
use crate::{AdminError, Newest};
use common::model::{LeadId, TenantId};
use tokio_postgres::{Client, Row};

common::statements! {
    const NEWEST = "-- inbox_messages.newest
    SELECT at, kind, text, changes::text AS changes
    FROM inbox_messages WHERE tenant_id = $1 AND lead_id = $2 ORDER BY message_id DESC LIMIT (SELECT $3::bigint)";
}

pub(crate) async fn newest(
    client: &Client,
    tenant: TenantId,
    lead: LeadId,
    limit: u32,
) -> Result<Newest<InboxMessage>, AdminError> {
    super::newest(client, NEWEST, &[&tenant.0, &lead.0], limit, message).await
}

fn message(row: &Row) -> Result<InboxMessage, AdminError> {
    Ok(InboxMessage {
        at: row.try_get("at")?,
        kind: row.try_get("kind")?,
        text: row.try_get("text")?,
        changes: raw_json(row.try_get("changes")?)?,
    })
}
