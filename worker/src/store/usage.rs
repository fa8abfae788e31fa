//! Metering of records writes (D23).

use super::query;
use chrono::{DateTime, Datelike, NaiveDate, Utc};
use common::db::TxError;
use common::model::TenantId;
use deadpool_postgres::Transaction;

// Touches no row when the quota is used up.
pub(super) const COUNT: &str = "
    -- usage.count
    INSERT INTO usage_counters AS u (tenant_id, month, writes)
    SELECT tenant_id, $2, 1 FROM tenants WHERE tenant_id = $1 AND coalesce(monthly_quota, 1) > 0
    ON CONFLICT (tenant_id, month) DO UPDATE SET writes = u.writes + 1
    WHERE u.writes < coalesce((SELECT monthly_quota FROM tenants t WHERE t.tenant_id = u.tenant_id), u.writes + 1)
    RETURNING writes";

/// Counts one write against the month's quota; `false` when it is used up. Must be the transaction's last statement: the
/// row is one for the whole agency, and others wait for it.
pub async fn count(tx: &Transaction<'_>, tenant: TenantId, now: DateTime<Utc>) -> Result<bool, TxError> {
    let rows = query(tx, COUNT, &[&tenant.0, &first_of_month(now)]).await?;
    Ok(!rows.is_empty())
}

fn first_of_month(now: DateTime<Utc>) -> NaiveDate {
    now.date_naive().with_day(1).unwrap_or_else(|| now.date_naive())
}

/// Seconds until the next month begins, UTC.
pub fn until_next_month(now: DateTime<Utc>) -> u32 {
    let next = first_of_month(now) + chrono::Months::new(1);
    let seconds = (next.and_time(chrono::NaiveTime::MIN).and_utc() - now).num_seconds();
    u32::try_from(seconds).unwrap_or(1).max(1)
}
