//! Deliveries as they are shown.

use crate::context::Context;
use crate::output::Show;
use crate::rows::{self, FromRow};
use chrono::{DateTime, Utc};
use common::clock;
use common::model::TenantId;
use serde::Serialize;
use std::collections::HashMap;
use tokio_postgres::Row;
use uuid::Uuid;

/// The events' types are looked up for those that are shown only.
pub(super) const NEWEST: &str = "-- deliveries.newest
SELECT d.*, o.event_type, o.origin
FROM (
    SELECT tenant_id, delivery_id, event_id, subscription_id, state, created_at, next_attempt_at
    FROM deliveries
    WHERE tenant_id = $1 AND ($2::text IS NULL OR state = $2) AND ($3::uuid IS NULL OR subscription_id = $3)
    ORDER BY created_at DESC, event_id DESC, delivery_id DESC LIMIT $4
) d
LEFT JOIN outbox o ON o.tenant_id = d.tenant_id AND o.event_id = d.event_id
ORDER BY d.created_at DESC, d.event_id DESC, d.delivery_id DESC";

/// The operator doesn't name the agency, and every key begins with it.
const FIND: &str = "-- deliveries.find
SELECT d.tenant_id, d.delivery_id, d.event_id, d.subscription_id, d.state, d.created_at, d.next_attempt_at,
    o.event_type, o.origin
FROM tenants t
JOIN deliveries d ON d.tenant_id = t.tenant_id AND d.delivery_id = $1
LEFT JOIN outbox o ON o.tenant_id = d.tenant_id AND o.event_id = d.event_id";

const ATTEMPTS: &str = "-- attempts.of_deliveries
SELECT delivery_id, at, status, error, CASE WHEN $3 THEN response END AS response, duration_ms
FROM attempts WHERE tenant_id = $1 AND delivery_id = ANY($2) ORDER BY delivery_id, attempt";

pub(super) const SUBSCRIPTION: &str = "-- subscriptions.exists
SELECT FROM subscriptions WHERE tenant_id = $1 AND subscription_id = $2";

/// A delivery with its attempts.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Delivery {
    pub(super) id: Uuid,
    #[serde(skip)]
    pub(super) tenant: TenantId,
    event_id: Uuid,
    event_type: Option<String>,
    subscription_id: Uuid,
    state: String,
    #[serde(serialize_with = "clock::serialize")]
    created_at: DateTime<Utc>,
    next_attempt_at: Option<String>,
    origin: Option<String>,
    pub(super) attempts: Vec<Attempt>,
}

/// One try; newest last.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Attempt {
    #[serde(serialize_with = "clock::serialize")]
    at: DateTime<Utc>,
    status: Option<i16>,
    error: Option<String>,
    duration_ms: i32,
    /// Shown of one delivery only.
    #[serde(skip_serializing_if = "Option::is_none")]
    response: Option<String>,
}

impl FromRow for Delivery {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        let next_attempt: Option<DateTime<Utc>> = row.try_get("next_attempt_at")?;
        Ok(Self {
            id: row.try_get("delivery_id")?,
            tenant: TenantId(row.try_get("tenant_id")?),
            event_id: row.try_get("event_id")?,
            event_type: row.try_get("event_type")?,
            subscription_id: row.try_get("subscription_id")?,
            state: row.try_get("state")?,
            created_at: row.try_get("created_at")?,
            next_attempt_at: next_attempt.map(clock::to_text),
            origin: row.try_get("origin")?,
            attempts: Vec::new(),
        })
    }
}

impl FromRow for Attempt {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        Ok(Self {
            at: row.try_get("at")?,
            status: row.try_get("status")?,
            error: row.try_get("error")?,
            duration_ms: row.try_get("duration_ms")?,
            response: row.try_get("response")?,
        })
    }
}

impl Attempt {
    fn outcome(&self) -> Option<String> {
        self.status.map(|status| status.to_string()).or_else(|| self.error.clone())
    }
}

impl Show for Delivery {
    const COLUMNS: &'static [&'static str] =
        &["Id", "Event", "Subscription", "State", "Created at", "Next attempt at", "Attempts", "Last"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.id.to_string()),
            self.event_type.clone(),
            Some(self.subscription_id.to_string()),
            Some(self.state.clone()),
            Some(clock::to_text(self.created_at)),
            self.next_attempt_at.clone(),
            Some(self.attempts.len().to_string()),
            self.attempts.last().and_then(Attempt::outcome),
        ]
    }
}

impl Show for Attempt {
    const COLUMNS: &'static [&'static str] = &["Attempt at", "Status", "Error", "ms", "Response"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(clock::to_text(self.at)),
            self.status.map(|status| status.to_string()),
            self.error.clone(),
            Some(self.duration_ms.to_string()),
            self.response.clone(),
        ]
    }
}

/// The delivery of that id, with all that is kept of its attempts.
pub(super) async fn find(context: &Context, id: Uuid) -> anyhow::Result<Option<Delivery>> {
    let Some(mut delivery) = rows::one::<Delivery>(context, FIND, &[&id]).await? else { return Ok(None) };
    let tenant = delivery.tenant;
    load_attempts(context, tenant, std::slice::from_mut(&mut delivery), true).await?;
    Ok(Some(delivery))
}

/// Adds their attempts to an agency's deliveries; what receivers answered only when asked for.
pub(super) async fn load_attempts(
    context: &Context,
    tenant: TenantId,
    deliveries: &mut [Delivery],
    with_responses: bool,
) -> anyhow::Result<()> {
    let ids: Vec<Uuid> = deliveries.iter().map(|delivery| delivery.id).collect();
    let rows = context.database.query(ATTEMPTS, &[&tenant.0, &ids, &with_responses]).await?;
    let mut attempts: HashMap<Uuid, Vec<Attempt>> = HashMap::new();
    for row in &rows {
        attempts.entry(row.try_get("delivery_id")?).or_default().push(Attempt::from_row(row)?);
    }
    for delivery in deliveries {
        delivery.attempts = attempts.remove(&delivery.id).unwrap_or_default();
    }
    Ok(())
}
