//! Whether expired rows are removed.

use super::Finding;
use crate::AdminError;
use chrono::TimeDelta;
use common::clock;
use common::retention::RULES;
use common::settings::RetentionSettings;
use tokio_postgres::Client;

/// Rows that expired longer ago are removed late, as for the alert `ConnectRetentionBehind`.
const LATE: TimeDelta = TimeDelta::hours(6);

pub(super) async fn check(client: &Client, settings: &RetentionSettings) -> Result<Vec<Finding>, AdminError> {
    let mut findings = Vec::new();
    for rule in RULES {
        let Some(cutoff) = rule.period(settings).cutoff(clock::now() - LATE) else { continue };
        for (table, due) in rule.tables.iter().zip(rule.due(client, cutoff, None).await?.rows) {
            if due > 0 {
                findings.push(Finding::warning(
                    format!("{due} rows of {table} expired more than {} hours ago and were not removed", LATE.num_hours()),
                    "Start a worker and look at its log, or run connectctl retention run; check that both have the same CONNECT_RETENTION_ settings",
                ));
            }
        }
    }
    Ok(findings)
}
