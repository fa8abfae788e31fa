//! Enquiry numbers. They are reserved outside the unit's transaction, so that no unit waits for another one's commit.

use common::db::{Database, TxError};
use common::model::TenantId;
use uuid::Uuid;

common::statements! {
    const RESERVE = "
    -- counters.reserve
    INSERT INTO enquiry_counters AS c (tenant_id, year, last)
    SELECT tenant_id, $3, wanted FROM unnest($1::uuid[], $2::integer[]) AS w (tenant_id, wanted) ORDER BY tenant_id
    ON CONFLICT (tenant_id, year) DO UPDATE SET last = c.last + excluded.last
    RETURNING tenant_id, last";
}

/// Reserves numbers of a year. `wanted` has each tenant once, with a count. Returns the last reserved number of each.
///
/// `counters` need not be durable: in the server's log a lead's commit follows the commit of its number.
pub(crate) async fn reserve_numbers(
    counters: &Database, wanted: &[(TenantId, i32)], year: i16,
) -> Result<Vec<(TenantId, i32)>, TxError> {
    let (tenants, counts): (Vec<Uuid>, Vec<i32>) = wanted.iter().map(|(tenant, count)| (tenant.0, *count)).unzip();
    let rows = counters.query(RESERVE.as_str(), &[&tenants, &counts, &year]).await?;
    Ok(rows.iter().map(|row| (TenantId(row.get(0)), row.get(1))).collect())
}
