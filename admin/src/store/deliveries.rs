//! Deliveries and their attempts, as operators see them.

use super::{all, newest, one};
use crate::{AdminError, Newest};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::{DeliveryState, TenantId};
use serde::Serialize;
use std::collections::HashMap;
use std::ops::Range;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// One attempt of a delivery.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// By the clock of the machine that made it.
    #[serde(serialize_with = "clock::serialize")]
    pub at: DateTime<Utc>,
    /// Status code of the response; null without a response.
    pub status: Option<i16>,
    /// Why there was no response.
    pub error: Option<String>,
    /// Milliseconds.
    pub duration_ms: i32,
    /// The beginning of the receiver's response; only of a single delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response: Option<String>,
}

/// A subscription with pending or dead deliveries.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionBacklog {
    /// Slug of the tenant.
    pub tenant: String,
    /// Id of the subscription.
    pub subscription_id: Uuid,
    /// URL of the receiver, without the values of its query.
    pub url: String,
    /// RFC 3339, UTC; null while it is not paused.
    pub paused_at: Option<String>,
    /// Deliveries with further attempts to come.
    pub pending: i64,
    /// Pending deliveries of which an attempt has failed.
    pub retried: i64,
    /// Deliveries of which all attempts have failed.
    pub dead: i64,
    /// When the oldest of these deliveries was created.
    #[serde(serialize_with = "clock::serialize")]
    pub oldest_at: DateTime<Utc>,
}

impl Attempt {
    /// Whether the receiver responded with a 2xx.
    pub fn is_success(&self) -> bool {
        self.status.is_some_and(|status| (200..300).contains(&status))
    }

    /// The status code, or why there was none, for people.
    pub fn outcome(&self) -> String {
        match (self.status, &self.error) {
            (Some(status), None) => format!("status {status}"),
            (Some(status), Some(error)) => format!("status {status}, {error}"),
            (None, Some(error)) => error.clone(),
            (None, None) => "no response".to_owned(),
        }
    }
}

/// A delivery with its attempts.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// As in the header `X-Connect-Delivery`.
    pub id: Uuid,
    /// The tenant of the subscription.
    #[serde(skip)]
    pub tenant: TenantId,
    /// Id of the outbound event.
    pub event_id: Uuid,
    /// Such as `lead.assigned`; null if the event is no longer stored.
    pub event_type: Option<String>,
    /// Id of the subscription.
    pub subscription_id: Uuid,
    /// Whether it was delivered.
    pub state: DeliveryState,
    /// When the event was relayed.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339, UTC; null if no further attempt follows.
    pub next_attempt_at: Option<String>,
    /// The system that caused the event.
    pub origin: Option<String>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
}

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
    /// A page of a tenant, by the primary key, whose ids are in the order of the events' times.
    const PAGE = concat!(
        "-- deliveries.page\n",
        shown!(
            "SELECT * FROM deliveries WHERE tenant_id = $1 AND delivery_id >= $2 AND delivery_id < $3
    ORDER BY delivery_id DESC LIMIT $4"
        )
    );

    /// A page of a tenant's subscriptions and states, each of them by its own key: reads as many rows of each as are shown.
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

/// The newest deliveries of a tenant whose ids are in a range, without their attempts.
pub(crate) async fn page(
    client: &Client,
    tenant: TenantId,
    ids: &Range<Uuid>,
    limit: u32,
) -> Result<Newest<Delivery>, AdminError> {
    newest(client, PAGE, &[&tenant.0, &ids.start, &ids.end], limit, delivery).await
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
    newest(client, PAGE_OF, &[&tenant.0, &ids.start, &ids.end, &subscriptions, &states], limit, delivery)
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
