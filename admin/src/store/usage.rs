//! Counters of metered writes, and reports of ingest about refused requests.

use super::{all, one, read_row};
use crate::Result;
use chrono::{DateTime, NaiveDate, Utc};
use common::clock;
use common::model::TenantId;
use serde::Serialize;
use tokio_postgres::{Client, Row};

/// The records writes of a calendar month (UTC).
#[derive(Clone, Debug, Serialize)]
pub struct Usage {
    /// Such as `2026-05`.
    pub month: String,
    /// Number of metered writes.
    pub writes: i64,
    /// Number of allowed writes; null for no limit.
    pub quota: Option<i64>,
}

/// What the copies of ingest have reported of a tenant and queue.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pressure {
    /// Slug of the tenant.
    pub tenant: String,
    /// The queue, without the prefix.
    pub queue: String,
    /// Backlog units that wait to be applied; 0 when the reports are outdated.
    pub waiting: i64,
    /// Requests that were refused in the last second; 0 when the reports are outdated.
    pub refused: i64,
    /// When the last report was made.
    #[serde(serialize_with = "clock::serialize")]
    pub reported_at: DateTime<Utc>,
}

common::statements! {
    const OF_MONTH = "-- usage_counters.of_month
    SELECT $2::date AS month, COALESCE(u.writes, 0) AS writes, t.monthly_quota
    FROM tenants t LEFT JOIN usage_counters u ON u.tenant_id = t.tenant_id AND u.month = $2
    WHERE t.slug = $1";

    const SINCE = "-- usage_counters.since
    SELECT month, writes FROM usage_counters WHERE tenant_id = $1 AND month >= $2 ORDER BY month";

    /// Lists the tenants of the last ten minutes. An ingest reports once a second while it refuses requests. A report older
    /// than ten seconds is outdated: the work is applied, or its ingest has ended.
    const PRESSURE = "-- intake_pressure.list
    SELECT t.slug, p.queue,
           coalesce(sum(p.waiting) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS waiting,
           coalesce(sum(p.refused) FILTER (WHERE p.reported_at > now() - interval '10 seconds'), 0)::bigint AS refused,
           max(p.reported_at) AS reported_at
    FROM intake_pressure p JOIN tenants t ON t.tenant_id = p.tenant_id
    WHERE p.reported_at > now() - interval '10 minutes'
    GROUP BY t.slug, p.queue
    ORDER BY refused, t.slug, p.queue";
}

/// The usage of the month that begins on `month`; `None` if there is no such tenant.
pub(crate) async fn of_month(client: &Client, tenant: &str, month: NaiveDate) -> Result<Option<Usage>> {
    one(client, OF_MONTH, &[&tenant, &month], usage).await
}

/// The writes of each month from `first` on that has any.
pub(crate) async fn since(client: &Client, tenant: TenantId, first: NaiveDate) -> Result<Vec<(NaiveDate, i64)>> {
    all(client, SINCE, &[&tenant.0, &first], |row| Ok((row.try_get("month")?, row.try_get("writes")?))).await
}

fn usage(row: &Row) -> Result<Usage> {
    Ok(Usage {
        month: row.try_get::<_, NaiveDate>("month")?.format("%Y-%m").to_string(),
        writes: row.try_get("writes")?,
        quota: row.try_get("monthly_quota")?,
    })
}

pub(crate) async fn pressures(client: &Client) -> Result<Vec<Pressure>> {
    all(client, PRESSURE, &[], pressure).await
}

fn pressure(row: &Row) -> Result<Pressure> {
    Ok(read_row!(row => Pressure { tenant = "slug", queue, waiting, refused, reported_at }))
}
