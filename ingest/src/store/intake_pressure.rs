//! `intake_pressure`: which agencies are refused because too much of their work waits.

use common::db::{TxError, Work};
use common::model::TenantId;
use deadpool_postgres::Transaction;
use uuid::Uuid;

/// Writes a report over the one before.
pub const REPORT: &str = "-- intake_pressure.report
    INSERT INTO intake_pressure (tenant_id, queue, ingest_id, waiting, refused, reported_at)
    SELECT tenant_id, $2, $1, waiting, refused, now()
    FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS p (tenant_id, waiting, refused)
    ON CONFLICT (tenant_id, queue, ingest_id) DO UPDATE
    SET waiting = excluded.waiting, refused = excluded.refused, reported_at = excluded.reported_at";

/// Removes what nobody reports any more.
pub const REMOVE_OLD: &str = "-- intake_pressure.remove_old
    DELETE FROM intake_pressure WHERE reported_at < now() - interval '1 hour'";

/// An agency whose requests were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pressure {
    /// The agency.
    pub tenant: TenantId,
    /// Its units that wait.
    pub waiting: u64,
    /// Its requests that were refused since the last report.
    pub refused: u64,
}

/// A report of the ingest with that id.
pub struct Report<'a> {
    /// The process.
    pub ingest: Uuid,
    /// What waits.
    pub queue: &'static str,
    /// The agencies.
    pub pressures: &'a [Pressure],
}

impl Work for Report<'_> {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        let tenants: Vec<Uuid> = self.pressures.iter().map(|pressure| pressure.tenant.0).collect();
        let count = |of: fn(&Pressure) -> u64| -> Vec<i64> {
            self.pressures.iter().map(|pressure| i64::try_from(of(pressure)).unwrap_or(i64::MAX)).collect()
        };
        let (waiting, refused) = (count(|pressure| pressure.waiting), count(|pressure| pressure.refused));
        let remove = tx.prepare_cached(REMOVE_OLD).await?;
        tx.execute(&remove, &[]).await?;
        let report = tx.prepare_cached(REPORT).await?;
        tx.execute(&report, &[&self.ingest, &self.queue, &tenants, &waiting, &refused]).await?;
        Ok(())
    }
}
