//! Attempts of the newest deliveries, summarized by subscription.

use super::{all, read_row};
use crate::Result;
use chrono::{DateTime, Utc};
use common::model::TenantId;
use std::collections::HashMap;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// What the attempts of a receiver show, of some time and of some of its newest deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiverHealth {
    /// Number of attempts.
    pub attempts: i64,
    /// Attempts with a 2xx response.
    pub succeeded: i64,
    /// Duration of the median attempt, in milliseconds.
    pub median_ms: i32,
    /// 95 % of the attempts took no longer, in milliseconds.
    pub slow_ms: i32,
    /// When the last failed attempt was made, and why it failed.
    pub last_failure: Option<(DateTime<Utc>, String)>,
}

/// The attempts `a` of the newest deliveries of subscriptions `s`: a bounded number of each. Of a delivery that succeeded at once its row
/// tells the attempt.
macro_rules! attempts {
    () => {
        "    FROM unnest($2::uuid[]) AS s (subscription_id)
    CROSS JOIN LATERAL (
        SELECT * FROM (
            SELECT * FROM deliveries d
            WHERE d.subscription_id = s.subscription_id AND d.tenant_id IS NOT DISTINCT FROM $1
            ORDER BY d.number DESC LIMIT $5
        ) d
        WHERE d.delivery_id >= $3
    ) d
    CROSS JOIN LATERAL (
        SELECT d.last_at AS at, d.last_status AS status, d.last_error AS error, d.last_duration_ms AS duration_ms
        WHERE d.attempts = 1 AND d.last_at >= $4 AND d.last_status BETWEEN 200 AND 299
        UNION ALL
        SELECT * FROM (
            SELECT a.at, a.status, a.error, a.duration_ms FROM attempts a
            WHERE a.tenant_id = $1 AND a.delivery_id = d.delivery_id AND a.at >= $4 LIMIT 32768
        ) a
    ) a"
    };
}

common::statements! {
    const HEALTH = concat!("-- attempts.health
    SELECT s.subscription_id, count(*) AS attempts, count(*) FILTER (WHERE a.status BETWEEN 200 AND 299) AS succeeded,
        percentile_disc(0.5) WITHIN GROUP (ORDER BY a.duration_ms) AS median_ms,
        percentile_disc(0.95) WITHIN GROUP (ORDER BY a.duration_ms) AS slow_ms,
        max(a.at) FILTER (WHERE a.status IS NULL OR a.status NOT BETWEEN 200 AND 299) AS failed_at,
        (array_agg(concat_ws(', ', 'status ' || a.status, a.error) ORDER BY a.at DESC)
            FILTER (WHERE a.status IS NULL OR a.status NOT BETWEEN 200 AND 299))[1] AS failure
", attempts!(), "
    GROUP BY s.subscription_id");

    const HOURS = concat!("-- attempts.hours
    SELECT floor(extract(epoch FROM a.at) / 3600)::bigint AS hour,
        count(*) FILTER (WHERE a.status BETWEEN 200 AND 299) AS succeeded, count(*) AS attempts
", attempts!(), "
    GROUP BY 1");
}

/// The health of receivers, by attempts since a time on at most `most` deliveries with ids from the given one on.
pub(crate) async fn load(
    client: &Client, tenant: TenantId, subscriptions: &[Uuid], (first_id, since): (Uuid, DateTime<Utc>), most: i64,
) -> Result<HashMap<Uuid, ReceiverHealth>> {
    let parameters: super::Parameters<'_> = &[&tenant.0, &subscriptions, &first_id, &since, &most];
    let read = |row: &Row| {
        let (at, why): (Option<DateTime<Utc>>, Option<String>) = (row.try_get("failed_at")?, row.try_get("failure")?);
        let health = read_row!(row => ReceiverHealth {
            attempts, succeeded, median_ms, slow_ms, last_failure: at.zip(why)
        });
        Ok((row.try_get("subscription_id")?, health))
    };
    Ok(all(client, HEALTH, parameters, read).await?.into_iter().collect())
}

/// The attempts of one receiver by hour since 1970: how many succeeded, and how many there were. Parameters are those of [`load`].
pub(crate) async fn hours(
    client: &Client, tenant: TenantId, subscription: Uuid, (first_id, since): (Uuid, DateTime<Utc>), most: i64,
) -> Result<HashMap<i64, (i64, i64)>> {
    let subscriptions = [subscription];
    let parameters: super::Parameters<'_> = &[&tenant.0, &subscriptions.as_slice(), &first_id, &since, &most];
    let read = |row: &Row| Ok((row.try_get("hour")?, (row.try_get("succeeded")?, row.try_get("attempts")?)));
    Ok(all(client, HOURS, parameters, read).await?.into_iter().collect())
}
