//! Metering of records writes (D23), and their deadline.

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use common::db::Query;
use common::model::TenantId;
use std::collections::BTreeMap;
use uuid::Uuid;

common::statements! {
    // Lock order: sorted by tenant, so that units that write for the same tenants do not deadlock.
    const COUNT = "
    -- usage.count
    SELECT count_writes(tenant, $2, writes, $4) FROM unnest($1::uuid[], $3::bigint[]) AS w (tenant, writes)";
}

/// SQLSTATE of [`count_writes`] when the quota is exceeded.
pub(crate) const QUOTA_USED_UP: &str = "W1001";
/// SQLSTATE of [`count_writes`] when the deadline has passed.
pub(crate) const DEADLINE_PASSED: &str = "W1002";

/// Counts the writes of each tenant against its monthly quota. Fails when a quota is exceeded, or when `deadline` has
/// passed by the server's clock. Must be the transaction's last statement: it locks one row of the tenant, for which all
/// other writes of the tenant wait.
pub(crate) fn count_writes(
    writes: &BTreeMap<TenantId, i64>, now: DateTime<Utc>, deadline: DateTime<Utc>,
) -> Query<'static> {
    let (tenants, counts): (Vec<Uuid>, Vec<i64>) = writes.iter().map(|(tenant, count)| (tenant.0, *count)).unzip();
    Query::new(COUNT).bind(tenants).bind(first_of_month(now)).bind(counts).bind(deadline)
}

fn first_of_month(now: DateTime<Utc>) -> NaiveDate {
    now.date_naive().with_day(1).unwrap_or_else(|| now.date_naive())
}

/// Seconds until the next month begins, UTC.
pub(crate) fn until_next_month(now: DateTime<Utc>) -> u32 {
    let next = first_of_month(now) + chrono::Months::new(1);
    let seconds = (next.and_time(chrono::NaiveTime::MIN).and_utc() - now).num_seconds();
    u32::try_from(seconds).unwrap_or(1).max(1)
}
