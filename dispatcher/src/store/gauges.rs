//! Counts for the gauges. Each reads a bounded number of rows: beyond that the exact number does not matter.

use super::query_in_time;
use common::db::{Database, TxError};

common::statements! {
    const OUTBOX = "
    -- outbox_pending.backlog
    SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8
    FROM (SELECT created_at FROM outbox_pending ORDER BY slot, tenant_id, event_id LIMIT 100000) AS waiting";

    const PENDING = "
    -- deliveries.pending
    SELECT count(*), 0::float8 FROM (
        SELECT 1 FROM deliveries WHERE state = 'pending' ORDER BY slot, subscription_id, next_attempt_at LIMIT 100000
    ) AS pending";

    const DEAD = "
    -- deliveries.dead
    SELECT count(*), 0::float8 FROM (
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

/// Counts events that are not fanned out; deliveries that are due and not recorded as sent, of subscriptions that are not paused;
/// pending ones; and dead-lettered ones. Each up to 100,000, with the age of the oldest in seconds where it matters.
pub(crate) async fn count(database: &Database) -> Result<[(i64, f64); 4], TxError> {
    let mut counts = [(0, 0.0); 4];
    for (count, sql) in counts.iter_mut().zip([OUTBOX, DUE, PENDING, DEAD]) {
        if let Some(row) = query_in_time(database, sql, &[]).await?.first() {
            *count = (row.try_get(0)?, row.try_get(1)?);
        }
    }
    Ok(counts)
}
