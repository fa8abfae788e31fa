//! Counts for the gauges, up to a bound: beyond it the exact number does not matter. Ages are those of all events and deliveries, for
//! which a row of each tenant or subscription is read.

use super::query;
use common::db::{Database, TxError};
use uuid::Uuid;

common::statements! {
    const OUTBOX = "
    -- outbox_pending.backlog
    SELECT count(*), (SELECT coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM pending_tenants())
    FROM (SELECT 1 FROM outbox_pending ORDER BY slot, tenant_id, event_id LIMIT 100000) AS waiting";

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

    // Of the next thousand subscriptions with pending deliveries. It counts at most so many deliveries, and returns the last of these
    // subscriptions, if there is one.
    const DUE = "
    -- deliveries.due_backlog
    WITH page AS MATERIALIZED (
        SELECT * FROM pending_subscriptions($1, $2, 1000) AS page
    ), due AS MATERIALIZED (
        SELECT * FROM page WHERE next_attempt_at <= now() AND NOT is_paused
    )
    SELECT (SELECT count(*) FROM (
                SELECT 1 FROM due CROSS JOIN LATERAL (
                    SELECT 1 FROM deliveries d
                    WHERE d.slot = due.slot AND d.subscription_id = due.subscription_id AND d.state = 'pending'
                      AND d.next_attempt_at <= now()
                    LIMIT $3::bigint
                ) AS d
                LIMIT $3::bigint
            ) AS waiting),
           coalesce(extract(epoch FROM now() - (SELECT min(next_attempt_at) FROM due)), 0)::float8, slot, subscription_id
    FROM page ORDER BY slot DESC, subscription_id DESC LIMIT 1";
}

/// Counts events that are not fanned out, pending deliveries, and dead-lettered ones: each up to 100,000, with the age of the oldest
/// in seconds where it matters.
pub(crate) async fn count(database: &Database) -> Result<[(i64, f64); 3], TxError> {
    let mut counts = [(0, 0.0); 3];
    for (count, sql) in counts.iter_mut().zip([OUTBOX, PENDING, DEAD]) {
        if let Some(row) = query(database, sql, &[]).await?.first() {
            *count = (row.try_get(0)?, row.try_get(1)?);
        }
    }
    Ok(counts)
}

/// Counts deliveries that are due and not recorded as sent, of subscriptions that are not paused: up to 100,000, with the age of the
/// oldest one of all subscriptions, in seconds.
pub(crate) async fn count_due(database: &Database) -> Result<(i64, f64), TxError> {
    let (mut count, mut oldest, mut after) = (0, 0.0, (-1_i16, Uuid::nil()));
    while let Some(row) = query(database, DUE, &[&after.0, &after.1, &(100_000 - count)]).await?.first() {
        count += row.try_get::<_, i64>(0)?;
        oldest = f64::max(oldest, row.try_get(1)?);
        after = (row.try_get(2)?, row.try_get(3)?);
    }
    Ok((count, oldest))
}
