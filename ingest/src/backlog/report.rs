//! Tells the operator which agencies are held to their share: no metric may name one.

use super::Backlog;
use crate::store::intake_pressure::Report;
use common::db::Database;
use std::time::Duration;
use tokio::time::interval;
use uuid::Uuid;

/// How often there is a report, while requests are refused.
const EVERY: Duration = Duration::from_secs(1);

/// Reports on `backlogs` for as long as the program lives. A report that cannot be written is left out: the requests are
/// counted all the same.
pub async fn report(database: Database, backlogs: Vec<Backlog>) {
    let ingest = Uuid::now_v7();
    let mut next = interval(EVERY);
    loop {
        next.tick().await;
        for backlog in &backlogs {
            let pressures = backlog.take_pressures();
            if pressures.is_empty() {
                continue;
            }
            let report = Report { ingest, queue: backlog.queue().as_str(), pressures: &pressures };
            if let Err(error) = database.run_tx("intake_pressure.report", &report).await {
                tracing::debug!(%error, "the agencies under pressure could not be reported");
            }
        }
    }
}
