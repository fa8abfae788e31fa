//! Counts for the gauges. Each reads a bounded number of rows: beyond that the exact number does not matter.

use super::{duration, query};
use common::db::{Sql, TxError};
use common::model::DeliveryState;
use deadpool_postgres::GenericClient;
use std::time::Duration;

common::statements! {
    const OUTBOX = "
    -- outbox_pending.backlog
    SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8
    FROM (SELECT created_at FROM outbox_pending ORDER BY slot, tenant_id, event_id LIMIT 100000) AS waiting";

    const PENDING = "
    -- deliveries.pending
    SELECT count(*) FROM (
        SELECT 1 FROM deliveries WHERE state = 'pending' ORDER BY slot, subscription_id, next_attempt_at LIMIT 100000
    ) AS pending";

    const DEAD = "
    -- deliveries.dead
    SELECT count(*) FROM (
        SELECT 1 FROM deliveries WHERE state = 'dead' ORDER BY tenant_id, delivery_id LIMIT 100000
    ) AS dead";

    // Of the first ten thousand subscriptions with pending deliveries.
    const DUE = "
    -- deliveries.due_backlog
    WITH due AS MATERIALIZED (
        SELECT slot, subscription_id, next_attempt_at
        FROM pending_subscriptions(-1::smallint, '00000000-0000-0000-0000-000000000000', 10000) AS page
        WHERE next_attempt_at <= now() AND NOT is_paused
    )
    SELECT (SELECT count(*) FROM (
                SELECT 1 FROM due CROSS JOIN LATERAL (
                    SELECT 1 FROM deliveries d
                    WHERE d.slot = due.slot AND d.subscription_id = due.subscription_id AND d.state = 'pending'
                      AND d.next_attempt_at <= now()
                    LIMIT 100000
                ) AS d
                LIMIT 100000
            ) AS waiting),
           coalesce(extract(epoch FROM now() - (SELECT min(next_attempt_at) FROM due)), 0)::float8";
}

/// What waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backlog {
    /// Counted up to 100,000.
    pub count: i64,
    /// Age of the oldest; zero if there is none.
    pub oldest: Duration,
}

/// Measures the events that are not fanned out.
pub(crate) async fn measure_outbox(on: &impl GenericClient) -> Result<Backlog, TxError> {
    backlog(on, OUTBOX).await
}

/// Measures the deliveries that are due and not recorded as sent, of subscriptions that are not paused.
pub(crate) async fn measure_due(on: &impl GenericClient) -> Result<Backlog, TxError> {
    backlog(on, DUE).await
}

/// Counts pending and dead-lettered deliveries, up to 100,000 each.
pub(crate) async fn count_deliveries(on: &impl GenericClient) -> Result<[(DeliveryState, i64); 2], TxError> {
    let (pending, dead) = (count(on, PENDING).await?, count(on, DEAD).await?);
    Ok([(DeliveryState::Pending, pending), (DeliveryState::DeadLettered, dead)])
}

async fn backlog(on: &impl GenericClient, sql: Sql) -> Result<Backlog, TxError> {
    let rows = query(on, sql, &[]).await?;
    let Some(row) = rows.first() else { return Ok(Backlog { count: 0, oldest: Duration::ZERO }) };
    Ok(Backlog { count: row.try_get(0)?, oldest: duration(row.try_get(1)?) })
}

async fn count(on: &impl GenericClient, sql: Sql) -> Result<i64, TxError> {
    query(on, sql, &[]).await?.first().map_or(Ok(0), |row| Ok(row.try_get(0)?))
}
