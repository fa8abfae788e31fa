//! Deliveries and their attempts, as operators see them.

use super::{all, newest as newest_rows, one};
use crate::deliveries::{Attempt, Delivery, SubscriptionBacklog};
use crate::{AdminError, Newest};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::{DeliveryState, TenantId};
use std::collections::HashMap;
use std::ops::Range;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// What is shown of the deliveries `d`; the events' types are looked up for these only.
macro_rules! shown {
    ($deliveries:literal) => {
        concat!(
            "SELECT d.tenant_id, d.delivery_id, d.event_id, d.subscription_id, d.state, d.created_at,
    d.next_attempt_at, o.event_type, o.origin
FROM (",
            $deliveries,
            ") d
LEFT JOIN LATERAL (
    SELECT event_type, origin FROM outbox o WHERE o.tenant_id = d.tenant_id AND o.event_id = d.event_id LIMIT 1
) o ON true
ORDER BY d.delivery_id DESC"
        )
    };
}

common::statements! {
    /// Of a tenant, by the primary key.
    const NEWEST = concat!(
        "-- deliveries.newest\n",
        shown!("SELECT * FROM deliveries WHERE tenant_id = $1 ORDER BY delivery_id DESC LIMIT (SELECT $2::bigint)")
    );

    /// Of a tenant's subscriptions and in states, each of them by its own key: reads as many rows of each as are shown.
    const NEWEST_OF = concat!(
        "-- deliveries.newest_of\n",
        shown!(
            "
        SELECT d.*
        FROM unnest($2::uuid[]) AS s (subscription_id) CROSS JOIN unnest($3::text[]) AS w (state)
        CROSS JOIN LATERAL (
            SELECT * FROM deliveries d
            WHERE uuid_send(d.subscription_id) = uuid_send(s.subscription_id) AND d.state = w.state
                AND d.tenant_id IS NOT DISTINCT FROM $1
            ORDER BY d.delivery_id DESC LIMIT $4
        ) d
        ORDER BY d.delivery_id DESC LIMIT $4
    "
        )
    );

    /// A page of a tenant, by the primary key, whose ids are in the order of the events' times.
    const PAGE = concat!(
        "-- deliveries.page\n",
        shown!(
            "SELECT * FROM deliveries WHERE tenant_id = $1 AND delivery_id >= $2 AND delivery_id < $3
    ORDER BY delivery_id DESC LIMIT $4"
        )
    );

    /// A page of a tenant's subscriptions and states.
    const PAGE_OF = concat!(
        "-- deliveries.page_of\n",
        shown!(
            "
        SELECT d.*
        FROM unnest($4::uuid[]) AS s (subscription_id) CROSS JOIN unnest($5::text[]) AS w (state)
        CROSS JOIN LATERAL (
            SELECT * FROM deliveries d
            WHERE uuid_send(d.subscription_id) = uuid_send(s.subscription_id) AND d.state = w.state
                AND d.delivery_id >= $2 AND d.delivery_id < $3 AND d.tenant_id IS NOT DISTINCT FROM $1
            ORDER BY d.delivery_id DESC LIMIT $6
        ) d
        ORDER BY d.delivery_id DESC LIMIT $6
    "
        )
    );

    /// The operator doesn't name the tenant.
    const FIND = concat!(
        "-- deliveries.find\n",
        shown!("SELECT * FROM deliveries WHERE uuid_send(delivery_id) = uuid_send($1) LIMIT 1")
    );

    /// The limit is more attempts than a delivery can have.
    const ATTEMPTS = "-- attempts.of_deliveries
    SELECT a.delivery_id, a.at, a.status, a.error, CASE WHEN $3 THEN a.response END AS response, a.duration_ms
    FROM unnest($2::uuid[]) AS shown (delivery_id)
    CROSS JOIN LATERAL (
        SELECT * FROM attempts a WHERE a.tenant_id = $1 AND a.delivery_id = shown.delivery_id LIMIT 32768
    ) a
    ORDER BY a.delivery_id, a.attempt";

    /// Each part has an index of its own, so that delivered deliveries are not read.
    const BACKLOGS = "-- deliveries.backlogs
    SELECT t.slug, subscription_id, s.display_url, s.paused_at, b.pending, b.retried, b.dead, b.oldest
    FROM (
        SELECT tenant_id, subscription_id, count(*) FILTER (WHERE state = 'pending') AS pending,
            count(*) FILTER (WHERE state = 'pending' AND attempts > attempts_before) AS retried,
            count(*) FILTER (WHERE state = 'dead') AS dead, min(created_at) AS oldest
        FROM (
            SELECT tenant_id, subscription_id, state, attempts, attempts_before, created_at
            FROM deliveries WHERE state = 'pending' AND parked_at IS NULL
            UNION ALL
            SELECT tenant_id, subscription_id, state, attempts, attempts_before, created_at
            FROM deliveries WHERE parked_at IS NOT NULL
            UNION ALL
            SELECT tenant_id, subscription_id, state, attempts, attempts_before, created_at
            FROM deliveries WHERE state = 'dead'
        ) waiting
        GROUP BY tenant_id, subscription_id
    ) b
    JOIN subscriptions s USING (tenant_id, subscription_id)
    JOIN tenants t USING (tenant_id)
    ORDER BY b.dead + b.retried DESC, b.pending DESC, subscription_id";
}

/// The newest deliveries of a tenant, without their attempts.
pub(crate) async fn newest(
    client: &Client,
    tenant: TenantId,
    limit: u32,
) -> Result<Newest<Delivery>, AdminError> {
    newest_rows(client, NEWEST, &[&tenant.0], limit, delivery).await
}

/// The newest deliveries to `subscriptions` of a tenant that are in one of `states`, without their attempts.
pub(crate) async fn newest_of(
    client: &Client,
    tenant: TenantId,
    subscriptions: &[Uuid],
    states: &[DeliveryState],
    limit: u32,
) -> Result<Newest<Delivery>, AdminError> {
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    newest_rows(client, NEWEST_OF, &[&tenant.0, &subscriptions, &states], limit, delivery).await
}

/// The newest deliveries of a tenant whose ids are in a range, without their attempts.
pub(crate) async fn page(
    client: &Client,
    tenant: TenantId,
    ids: &Range<Uuid>,
    limit: u32,
) -> Result<Newest<Delivery>, AdminError> {
    newest_rows(client, PAGE, &[&tenant.0, &ids.start, &ids.end], limit, delivery).await
}

/// The newest deliveries to `subscriptions` of a tenant that are in one of `states` and whose ids are in a range, without
/// their attempts.
pub(crate) async fn page_of(
    client: &Client,
    tenant: TenantId,
    ids: &Range<Uuid>,
    subscriptions: &[Uuid],
    states: &[DeliveryState],
    limit: u32,
) -> Result<Newest<Delivery>, AdminError> {
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    newest_rows(client, PAGE_OF, &[&tenant.0, &ids.start, &ids.end, &subscriptions, &states], limit, delivery)
        .await
}

/// A delivery without its attempts.
pub(crate) async fn find(client: &Client, id: Uuid) -> Result<Option<Delivery>, AdminError> {
    one(client, FIND, &[&id], delivery).await
}

pub(crate) async fn backlogs(client: &Client) -> Result<Vec<SubscriptionBacklog>, AdminError> {
    all(client, BACKLOGS, &[], backlog).await
}

/// Loads the attempts of a tenant's deliveries, `with_responses` also what the receivers responded.
pub(crate) async fn load_attempts(
    client: &Client,
    tenant: TenantId,
    deliveries: &mut [Delivery],
    with_responses: bool,
) -> Result<(), AdminError> {
    let ids: Vec<Uuid> = deliveries.iter().map(|delivery| delivery.id).collect();
    let rows = client.query(ATTEMPTS.as_str(), &[&tenant.0, &ids, &with_responses]).await?;
    let mut attempts: HashMap<Uuid, Vec<Attempt>> = HashMap::new();
    for row in &rows {
        attempts.entry(row.try_get("delivery_id")?).or_default().push(attempt(row)?);
    }
    for delivery in deliveries {
        delivery.attempts = attempts.remove(&delivery.id).unwrap_or_default();
    }
    Ok(())
}

/// The state of a delivery in a row of deliveries.
pub(super) fn state(row: &Row) -> Result<DeliveryState, AdminError> {
    let name: &str = row.try_get("state")?;
    let unknown = || AdminError::Unreadable(format!("unknown state of a delivery: {name:?}"));
    DeliveryState::parse(name).ok_or_else(unknown)
}

fn delivery(row: &Row) -> Result<Delivery, AdminError> {
    let next_attempt: Option<DateTime<Utc>> = row.try_get("next_attempt_at")?;
    Ok(Delivery {
        id: row.try_get("delivery_id")?,
        tenant: TenantId(row.try_get("tenant_id")?),
        event_id: row.try_get("event_id")?,
        event_type: row.try_get("event_type")?,
        subscription_id: row.try_get("subscription_id")?,
        state: state(row)?,
        created_at: row.try_get("created_at")?,
        next_attempt_at: next_attempt.map(clock::to_text),
        origin: row.try_get("origin")?,
        attempts: Vec::new(),
    })
}

fn attempt(row: &Row) -> Result<Attempt, AdminError> {
    Ok(Attempt {
        at: row.try_get("at")?,
        status: row.try_get("status")?,
        error: row.try_get("error")?,
        duration_ms: row.try_get("duration_ms")?,
        response: row.try_get("response")?,
    })
}

fn backlog(row: &Row) -> Result<SubscriptionBacklog, AdminError> {
    let paused_at: Option<DateTime<Utc>> = row.try_get("paused_at")?;
    Ok(SubscriptionBacklog {
        tenant: row.try_get("slug")?,
        subscription_id: row.try_get("subscription_id")?,
        url: row.try_get("display_url")?,
        paused_at: paused_at.map(clock::to_text),
        pending: row.try_get("pending")?,
        retried: row.try_get("retried")?,
        dead: row.try_get("dead")?,
        oldest_at: row.try_get("oldest")?,
    })
}
