//! Metering of records writes (D23), and their deadline.

use chrono::{DateTime, Datelike, NaiveDate, Utc};
use common::db::Query;
use common::model::TenantId;

pub(super) const COUNT: &str = "
    -- usage.count
    SELECT count_write($1, $2, $3)";

/// The error of [`count_write`] when the quota is used up.
pub(crate) const QUOTA_USED_UP: &str = "W1001";
/// The error of [`count_write`] when the deadline has passed.
pub(crate) const DEADLINE_PASSED: &str = "W1002";

/// Counts one write against the month's quota, and fails when that is used up or `deadline`, by the server's clock, has
/// passed. Must be the transaction's last statement: the row is one for the whole tenant, and others wait for it.
pub(crate) fn count_write(tenant: TenantId, now: DateTime<Utc>, deadline: DateTime<Utc>) -> Query<'static> {
    Query::new(COUNT).bind(tenant.0).bind(first_of_month(now)).bind(deadline)
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
