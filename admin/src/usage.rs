//! Metered records writes (D23).

use crate::{AdminError, store};
use chrono::{Datelike as _, Months, NaiveDate};
use common::clock;
use common::model::TenantId;
use serde::Serialize;
use tokio_postgres::Client;

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

/// The records writes of the last `months` calendar months, the current one last; months without a write have 0.
pub async fn of_last_months(
    client: &Client,
    tenant: TenantId,
    months: u32,
) -> Result<Vec<(String, i64)>, AdminError> {
    let today = clock::now().date_naive();
    let current = today.with_day(1).unwrap_or(today);
    let all: Vec<NaiveDate> =
        (0..months).rev().filter_map(|ago| current.checked_sub_months(Months::new(ago))).collect();
    let first = all.first().copied().unwrap_or(current);
    let counted = store::usage_counters::since(client, tenant, first).await?;
    let writes = |month: &NaiveDate| {
        counted.iter().find(|(counted, _)| counted == month).map_or(0, |(_, writes)| *writes)
    };
    Ok(all.iter().map(|month| (month.format("%Y-%m").to_string(), writes(month))).collect())
}

/// The records writes of the current month.
pub async fn of_this_month(client: &Client, tenant: &str) -> Result<Usage, AdminError> {
    let today = clock::now().date_naive();
    let month = today.with_day(1).unwrap_or(today);
    let usage = store::usage_counters::of_month(client, tenant, month).await?;
    usage.ok_or_else(|| AdminError::TenantNotFound(tenant.to_owned()))
}
