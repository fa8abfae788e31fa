//! The outbox: what is to be relayed.

use super::{column, execute, query};
use crate::fan_out::OutboxEvent;
use chrono::{DateTime, Utc};
use common::db::TxError;
use deadpool_postgres::GenericClient;

pub(super) const PENDING: &str = "
    -- outbox.pending
    SELECT tenant_id, event_id, event_type, key_prefix, origin, envelope::text, traceparent, request_id
    FROM outbox WHERE relayed_at IS NULL ORDER BY event_id LIMIT $1::bigint";

pub(super) const RELAYED: &str = "
    -- outbox.relayed
    UPDATE outbox SET relayed_at = $3
    FROM unnest($1::uuid[], $2::uuid[]) AS done (tenant_id, event_id)
    WHERE outbox.tenant_id = done.tenant_id AND outbox.event_id = done.event_id AND relayed_at IS NULL";

// Looks at a bounded number of rows: a longer queue is as bad as this.
pub(super) const WAITING: &str = "
    -- outbox.waiting
    SELECT count(*), min(created_at) FROM (
        SELECT created_at FROM outbox WHERE relayed_at IS NULL ORDER BY event_id LIMIT 100000
    ) AS waiting";

/// What waits in the outbox.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Events, counted up to 100,000.
    pub events: i64,
    /// When the oldest of them was written.
    pub oldest: Option<DateTime<Utc>>,
}

/// The oldest events that are not relayed, `limit` at most.
pub async fn pending(on: &impl GenericClient, limit: i64) -> Result<Vec<OutboxEvent>, TxError> {
    let rows = query(on, PENDING, &[&limit]).await?;
    let event = |row: &tokio_postgres::Row| OutboxEvent {
        tenant_id: row.get(0),
        event_id: row.get(1),
        event_type: row.get(2),
        key_prefix: row.get(3),
        origin: row.get(4),
        envelope: row.get(5),
        traceparent: row.get(6),
        request_id: row.get(7),
    };
    Ok(rows.iter().map(event).collect())
}

/// Marks events as relayed.
pub async fn relayed(
    on: &impl GenericClient,
    events: &[&OutboxEvent],
    now: DateTime<Utc>,
) -> Result<(), TxError> {
    let (tenants, ids) = (column(events, |event| event.tenant_id), column(events, |event| event.event_id));
    execute(on, RELAYED, &[&tenants, &ids, &now]).await.map(drop)
}

/// How much waits, and since when.
pub async fn waiting(on: &impl GenericClient) -> Result<Waiting, TxError> {
    let rows = query(on, WAITING, &[]).await?;
    let waiting = rows.first().map(|row| Waiting { events: row.get(0), oldest: row.get(1) });
    Ok(waiting.unwrap_or(Waiting { events: 0, oldest: None }))
}
