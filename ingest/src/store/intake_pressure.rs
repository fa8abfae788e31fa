//! `intake_pressure`: the tenants whose requests are refused because of the backlog.

use common::db::{TransactionBody, TxError};
use common::model::TenantId;
use deadpool_postgres::Transaction;
use uuid::Uuid;

common::statements! {
    /// Writes a report, replacing the previous one.
    const REPORT = "-- intake_pressure.report
    INSERT INTO intake_pressure (tenant_id, queue, ingest_id, waiting, refused, reported_at)
    SELECT tenant_id, $2, $1, waiting, refused, now()
    FROM unnest($3::uuid[], $4::bigint[], $5::bigint[]) AS p (tenant_id, waiting, refused)
    ON CONFLICT (tenant_id, queue, ingest_id) DO UPDATE
    SET waiting = excluded.waiting, refused = excluded.refused, reported_at = excluded.reported_at";

    /// Removes reports that are older than an hour.
    const REMOVE_OLD = "-- intake_pressure.remove_old
    DELETE FROM intake_pressure WHERE reported_at < now() - interval '1 hour'";
}

/// A tenant whose requests were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TenantPressure {
    pub(crate) tenant: TenantId,
    /// Units of the tenant that are published and not applied.
    pub(crate) waiting: u64,
    /// Its requests that were refused since the last report.
    pub(crate) refused: u64,
}

/// A report of one ingest about one queue.
pub(crate) struct PressureReport<'a> {
    /// The id of the reporting process.
    pub(crate) ingest: Uuid,
    /// The queue of the backlog.
    pub(crate) queue: &'static str,
    pub(crate) pressures: &'a [TenantPressure],
}

impl TransactionBody for PressureReport<'_> {
    type Output = ();

    async fn run(&self, tx: &Transaction<'_>) -> Result<(), TxError> {
        let tenants: Vec<Uuid> = self.pressures.iter().map(|pressure| pressure.tenant.0).collect();
        let count = |of: fn(&TenantPressure) -> u64| -> Vec<i64> {
            self.pressures.iter().map(|pressure| i64::try_from(of(pressure)).unwrap_or(i64::MAX)).collect()
        };
        let (waiting, refused) = (count(|pressure| pressure.waiting), count(|pressure| pressure.refused));
        let remove = super::prepared(tx, REMOVE_OLD).await?;
        tx.execute(&remove, &[]).await?;
        let report = super::prepared(tx, REPORT).await?;
        tx.execute(&report, &[&self.ingest, &self.queue, &tenants, &waiting, &refused]).await?;
        Ok(())
    }
}
