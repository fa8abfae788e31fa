//! Enquiry numbers. Reserved outside the unit's transaction, so that no unit waits for another's commit.

use chrono::{DateTime, Datelike, Utc};
use common::db::{Database, TxError};
use common::model::TenantId;
use std::collections::HashMap;
use uuid::Uuid;

pub(super) const RESERVE: &str = "
    -- counters.reserve
    INSERT INTO enquiry_counters AS c (tenant_id, year, last)
    SELECT tenant_id, $3, wanted FROM unnest($1::uuid[], $2::integer[]) AS w (tenant_id, wanted) ORDER BY tenant_id
    ON CONFLICT (tenant_id, year) DO UPDATE SET last = c.last + excluded.last
    RETURNING tenant_id, last";

/// The first number reserved, and how many.
pub type Reservation = (i32, i32);

/// Reserves `wanted` numbers for each agency in the year of `now`. Numbers that are not used stay unused.
///
/// `counters` needn't be durable: an enquiry's commit comes later in the server's log than its number's.
pub async fn reserve_numbers(
    counters: &Database,
    wanted: &[(TenantId, usize)],
    now: DateTime<Utc>,
) -> Result<HashMap<TenantId, Reservation>, TxError> {
    let wanted: Vec<_> = wanted.iter().filter(|(_, count)| *count > 0).collect();
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let tenants: Vec<Uuid> = wanted.iter().map(|(tenant, _)| tenant.0).collect();
    let counts: Vec<i32> =
        wanted.iter().map(|(_, count)| i32::try_from(*count).unwrap_or(i32::MAX)).collect();
    let year = i16::try_from(now.year()).unwrap_or(i16::MAX);
    let client = counters.client().await?;
    let statement = client.prepare_cached(RESERVE).await?;
    let rows = client.query(&statement, &[&tenants, &counts, &year]).await?;
    let count_of: HashMap<Uuid, i32> = tenants.into_iter().zip(counts).collect();
    let reserved = rows.iter().map(|row| {
        let (tenant, last): (Uuid, i32) = (row.get(0), row.get(1));
        let count = count_of[&tenant];
        (TenantId(tenant), (last - count + 1, count))
    });
    Ok(reserved.collect())
}
