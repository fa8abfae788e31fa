//! Deliveries and their attempts, as operators see them.

use super::{all, newest, one, read_row};
use crate::{AdminError, Newest, Result};
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
    /// Headers of that response which explain it, a line each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_headers: Option<String>,
    /// The URL that it was made to, if that of the subscription was changed since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
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
            (None, Some(error)) => error.split(" (os error").next().unwrap_or_default().to_owned(),
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
    /// As in the header `X-Connect-Sequence`.
    pub number: i64,
    /// URL of the receiver, without the values of its query.
    #[serde(skip)]
    pub url: String,
    /// Whether it was delivered.
    pub state: DeliveryState,
    /// When the event was fanned out.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
    /// RFC 3339, UTC; null if no further attempt follows.
    pub next_attempt_at: Option<String>,
    /// The system that caused the event.
    pub origin: Option<String>,
    /// Oldest first.
    pub attempts: Vec<Attempt>,
    /// The last attempt, which is the only one if it succeeded at once: then it has no row of its own.
    #[serde(skip)]
    pub(crate) last: Option<Attempt>,
}

/// What is shown of the deliveries `d`; the events' types and the receivers are looked up for these only.
macro_rules! shown {
    ($deliveries:expr) => {
        concat!(
            "SELECT d.tenant_id, d.delivery_id, d.event_id, d.subscription_id, d.number, d.state, d.created_at,
    d.next_attempt_at, d.last_at, d.last_status, d.last_error, d.last_duration_ms, o.event_type, o.origin,
    coalesce(s.display_url, '') AS url
FROM (",
            $deliveries,
            ") d
LEFT JOIN LATERAL (
    SELECT event_type, origin FROM outbox o WHERE o.tenant_id = d.tenant_id AND o.event_id = d.event_id LIMIT 1
) o ON true
LEFT JOIN LATERAL (
    SELECT display_url FROM subscriptions s
    WHERE s.tenant_id = d.tenant_id AND s.subscription_id = d.subscription_id LIMIT 1
) s ON true"
        )
    };
}

/// The newest 50,000 deliveries of a tenant in a range of ids: what a page is selected from, so that it never reads more.
macro_rules! newest_of_tenant {
    ($columns:literal, $condition:literal, $limit:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM deliveries
    WHERE tenant_id = $1 AND delivery_id >= $2 AND delivery_id < $3",
            $condition,
            "
    ORDER BY delivery_id DESC ",
            $limit
        )
    };
}

macro_rules! page {
    ($label:literal, $condition:literal) => {
        concat!(
            "-- deliveries.",
            $label,
            "\n",
            shown!(newest_of_tenant!("*", $condition, "LIMIT 50000")),
            "
    WHERE ($4::uuid IS NULL OR d.subscription_id = $4) AND ($5::text IS NULL OR d.state = $5)
      AND ($6::text IS NULL OR o.event_type = $6)
    ORDER BY d.delivery_id DESC LIMIT $7::bigint"
        )
    };
}

common::statements! {
    /// Ids are in the order of the events' times.
    const PAGE = page!("page", "");

    const PAGE_END = concat!("-- deliveries.page_end\n", newest_of_tenant!("delivery_id", "", "OFFSET 49999 LIMIT 1"));

    /// By an index of its own, because dead-lettered ones are few among the others.
    const DEAD_PAGE = page!("dead_page", " AND state = 'dead'");

    const DEAD_PAGE_END =
        concat!("-- deliveries.dead_page_end\n", newest_of_tenant!("delivery_id", " AND state = 'dead'", "OFFSET 49999 LIMIT 1"));

    /// The operator doesn't name the tenant.
    const FIND = concat!("-- deliveries.find\n", shown!(
        "SELECT d.* FROM tenants t CROSS JOIN LATERAL (
        SELECT * FROM deliveries d WHERE d.tenant_id = t.tenant_id AND d.delivery_id = $1 LIMIT 1
    ) d LIMIT 1"));

    /// The limit is more attempts than a delivery can have.
    const ATTEMPTS = "-- attempts.of_deliveries
    SELECT a.delivery_id, a.at, a.status, a.error, CASE WHEN $3 THEN a.response END AS response,
           CASE WHEN $3 THEN a.response_headers END AS response_headers, a.duration_ms
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
            FROM deliveries WHERE state = 'pending'
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

/// The smallest id of an event at a time.
pub(crate) fn first_id(at: DateTime<Utc>) -> Uuid {
    let milliseconds = u64::try_from(at.timestamp_millis()).unwrap_or_default().min((1 << 48) - 1);
    Uuid::from_u128(u128::from(milliseconds) << 80)
}

/// Which deliveries of a tenant are shown.
#[derive(Clone, Debug)]
pub(crate) struct Selected {
    pub(crate) ids: Range<Uuid>,
    pub(crate) subscription: Option<Uuid>,
    pub(crate) state: Option<DeliveryState>,
    pub(crate) event_type: Option<&'static str>,
}

/// The newest deliveries of a tenant that are selected, without their attempts, and where the next page begins; `None` after the
/// last one. At most 50,000 deliveries are read, so a page may have few items, or none, although others follow.
pub(crate) async fn page(
    client: &Client, tenant: TenantId, selected: &Selected, limit: u32,
) -> Result<(Vec<Delivery>, Option<Uuid>)> {
    let Selected { ids, subscription, state, event_type } = selected;
    let (page, end) = match state {
        Some(DeliveryState::DeadLettered) => (DEAD_PAGE, DEAD_PAGE_END),
        _ => (PAGE, PAGE_END),
    };
    let state = state.map(DeliveryState::as_str);
    let parameters: super::Parameters<'_> = &[&tenant.0, &ids.start, &ids.end, subscription, &state, event_type];
    let Newest { mut items, is_cut } = newest(client, page, parameters, limit, delivery).await?;
    let next = match items.first() {
        Some(last) if is_cut => Some(last.id),
        _ => one(client, end, &[&tenant.0, &ids.start, &ids.end], |row| Ok(row.try_get(0)?)).await?,
    };
    items.reverse();
    Ok((items, next))
}

/// A delivery without its attempts.
pub(crate) async fn find(client: &Client, id: Uuid) -> Result<Option<Delivery>> {
    one(client, FIND, &[&id], delivery).await
}

pub(crate) async fn backlogs(client: &Client) -> Result<Vec<SubscriptionBacklog>> {
    all(client, BACKLOGS, &[], backlog).await
}

/// Loads the attempts of a tenant's deliveries, `with_responses` also what the receivers responded.
pub(crate) async fn load_attempts(
    client: &Client, tenant: TenantId, deliveries: &mut [Delivery], with_responses: bool,
) -> Result<()> {
    let ids: Vec<Uuid> = deliveries.iter().map(|delivery| delivery.id).collect();
    let rows = client.query(ATTEMPTS.as_str(), &[&tenant.0, &ids, &with_responses]).await?;
    let mut attempts: HashMap<Uuid, Vec<Attempt>> = HashMap::new();
    for row in &rows {
        attempts.entry(row.try_get("delivery_id")?).or_default().push(attempt(row)?);
    }
    for delivery in deliveries {
        let of_its_row = || delivery.last.take().into_iter().collect();
        delivery.attempts = attempts.remove(&delivery.id).unwrap_or_else(of_its_row);
    }
    Ok(())
}

pub(super) fn state(row: &Row) -> Result<DeliveryState> {
    let name: &str = row.try_get("state")?;
    let unknown = || AdminError::Unreadable(format!("unknown state of a delivery: {name:?}"));
    DeliveryState::parse(name).ok_or_else(unknown)
}

fn delivery(row: &Row) -> Result<Delivery> {
    let next_attempt: Option<DateTime<Utc>> = row.try_get("next_attempt_at")?;
    let last_at: Option<DateTime<Utc>> = row.try_get("last_at")?;
    let last = |at| {
        Ok::<_, AdminError>(Attempt {
            at,
            status: row.try_get("last_status")?,
            error: row.try_get("last_error")?,
            duration_ms: row.try_get::<_, Option<i32>>("last_duration_ms")?.unwrap_or_default(),
            response: None,
            response_headers: None,
            url: None,
        })
    };
    Ok(read_row!(row => Delivery {
        id = "delivery_id", tenant = "tenant_id" as TenantId, event_id, event_type, subscription_id, number, url,
        state: state(row)?, created_at, next_attempt_at: next_attempt.map(clock::to_text), origin,
        attempts: Vec::new(), last: last_at.map(last).transpose()?
    }))
}

fn attempt(row: &Row) -> Result<Attempt> {
    Ok(read_row!(row => Attempt { at, status, error, duration_ms, response, response_headers, url: None }))
}

fn backlog(row: &Row) -> Result<SubscriptionBacklog> {
    let paused_at: Option<DateTime<Utc>> = row.try_get("paused_at")?;
    Ok(read_row!(row => SubscriptionBacklog {
        tenant = "slug", subscription_id, url = "display_url", paused_at: paused_at.map(clock::to_text),
        pending, retried, dead, oldest_at = "oldest"
    }))
}
