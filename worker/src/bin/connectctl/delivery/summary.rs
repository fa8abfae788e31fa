//! Which receivers have a backlog, of all agencies: where to look when webhooks fail.

use crate::output::Show;
use crate::rows::FromRow;
use chrono::{DateTime, Utc};
use common::clock;
use common::egress::displayable;
use serde::Serialize;
use tokio_postgres::Row;
use uuid::Uuid;

/// By the indexes of what waits and of what is dead; deliveries that have ended well are not gone through.
pub(super) const BACKLOGS: &str = "-- deliveries.backlogs
SELECT t.slug, subscription_id, s.url, s.paused_at, b.pending, b.retried, b.dead, b.oldest
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

/// A subscription that deliveries wait for, or were given up for.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Backlog {
    tenant: String,
    subscription_id: Uuid,
    url: String,
    paused_at: Option<String>,
    /// Attempts are to come.
    pending: i64,
    /// Of these, those that have failed already.
    retried: i64,
    dead: i64,
    /// When the oldest of all these was made.
    #[serde(serialize_with = "clock::serialize")]
    oldest_at: DateTime<Utc>,
}

impl FromRow for Backlog {
    fn from_row(row: &Row) -> anyhow::Result<Self> {
        let paused_at: Option<DateTime<Utc>> = row.try_get("paused_at")?;
        Ok(Self {
            tenant: row.try_get("slug")?,
            subscription_id: row.try_get("subscription_id")?,
            url: displayable(row.try_get("url")?),
            paused_at: paused_at.map(clock::to_text),
            pending: row.try_get("pending")?,
            retried: row.try_get("retried")?,
            dead: row.try_get("dead")?,
            oldest_at: row.try_get("oldest")?,
        })
    }
}

impl Show for Backlog {
    const COLUMNS: &'static [&'static str] =
        &["Tenant", "Subscription", "URL", "Paused at", "Pending", "Retried", "Dead", "Oldest"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![
            Some(self.tenant.clone()),
            Some(self.subscription_id.to_string()),
            Some(self.url.clone()),
            self.paused_at.clone(),
            Some(self.pending.to_string()),
            Some(self.retried.to_string()),
            Some(self.dead.to_string()),
            Some(clock::to_text(self.oldest_at)),
        ]
    }
}
