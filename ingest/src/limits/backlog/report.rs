//! Reports to the operator which tenants are refused because of the backlog. Metrics must not name a tenant.

use super::Backlog;
use crate::store::intake_pressure::PressureReport;
use common::db::Database;
use common::periodic::ticks;
use std::time::Duration;
use uuid::Uuid;

/// The interval of reports while requests are refused.
const EVERY: Duration = Duration::from_secs(1);

/// Reports on `backlogs` until the program ends. A report that cannot be written is dropped; metrics count its requests.
pub(crate) async fn report_pressure(database: Database, backlogs: Vec<Backlog>) {
    let ingest = Uuid::now_v7();
    let mut ticks = ticks(EVERY);
    loop {
        ticks.tick().await;
        for backlog in &backlogs {
            let pressures = backlog.take_pressures();
            if pressures.is_empty() {
                continue;
            }
            let report = PressureReport { ingest, queue: backlog.queue().as_str(), pressures: &pressures };
            if let Err(error) = database.run_tx("intake_pressure.report", &report).await {
                tracing::debug!(%error, "reporting refused tenants failed; dropping this report");
            }
        }
    }
}
