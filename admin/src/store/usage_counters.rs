//! Counters of metered writes.

use super::{all, one};
use crate::AdminError;
use crate::usage::Usage;
use chrono::NaiveDate;
use common::model::TenantId;
use tokio_postgres::{Client, Row};

common::statements! {
    const OF_MONTH = "-- usage_counters.of_month
    SELECT $2::date AS month, COALESCE(u.writes, 0) AS writes, t.monthly_quota
    FROM tenants t LEFT JOIN usage_counters u ON u.tenant_id = t.tenant_id AND u.month = $2
    WHERE t.slug = $1";

    const SINCE = "-- usage_counters.since
    SELECT month, writes FROM usage_counters WHERE tenant_id = $1 AND month >= $2 ORDER BY month";
}

/// The usage of the month that begins on `month`; `None` if there is no such tenant.
pub(crate) async fn of_month(
    client: &Client,
    tenant: &str,
    month: NaiveDate,
) -> Result<Option<Usage>, AdminError> {
    one(client, OF_MONTH, &[&tenant, &month], usage).await
}

/// The writes of each month from `first` on that has any.
pub(crate) async fn since(
    client: &Client,
    tenant: TenantId,
    first: NaiveDate,
) -> Result<Vec<(NaiveDate, i64)>, AdminError> {
    all(client, SINCE, &[&tenant.0, &first], |row| Ok((row.try_get("month")?, row.try_get("writes")?))).await
}

fn usage(row: &Row) -> Result<Usage, AdminError> {
    Ok(Usage {
        month: row.try_get::<_, NaiveDate>("month")?.format("%Y-%m").to_string(),
        writes: row.try_get("writes")?,
        quota: row.try_get("monthly_quota")?,
    })
}
