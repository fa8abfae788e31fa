//! What expires: rows of the database. The worker removes them by itself, in the same steps.

use crate::audit::{Actor, AuditAction, record_before};
use crate::{AdminError, Observer, ProgressStep, Result, transact};
use chrono::{DateTime, Utc};
use common::retention::{Position, RULES, Rule, Step};
use common::settings::RetentionSettings;
use serde::Serialize;
use std::time::Duration;
use tokio::time::sleep;
use tokio_postgres::Client;

/// The wait for another copy that removes expired rows, and how often it is repeated. A step of it takes milliseconds.
const BUSY_WAIT: Duration = Duration::from_millis(50);
const BUSY_WAITS_MAX: u32 = 600;

/// How much of a table has expired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExpiredReport {
    /// The name of the table.
    pub what: &'static str,
    /// How long its rows are kept, such as `30d`; `off` keeps them.
    pub keep: String,
    /// Rows that have expired.
    #[serde(rename = "due")]
    pub expired: u64,
}

/// How much of a table was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovedReport {
    /// The name of the table.
    pub what: &'static str,
    /// Rows that were removed.
    pub removed: u64,
}

/// What has expired at `now`.
pub async fn plan(client: &Client, settings: &RetentionSettings, now: DateTime<Utc>) -> Result<Vec<ExpiredReport>> {
    let mut reports = Vec::new();
    for rule in RULES {
        let period = rule.period(settings);
        let expired = match period.cutoff(now) {
            Some(cutoff) => rule.due(client, cutoff, None).await?.rows,
            None => vec![0; rule.tables.len()],
        };
        let report = |(what, expired): (&&'static str, u64)| ExpiredReport { what, keep: period.to_string(), expired };
        reports.extend(rule.tables.iter().zip(expired).map(report));
    }
    Ok(reports)
}

/// Removes what has expired at `now`.
pub async fn run(
    client: &mut Client, actor: &Actor, settings: &RetentionSettings, now: DateTime<Utc>, observer: &mut impl Observer,
) -> Result<Vec<RemovedReport>> {
    let expired: u64 = plan(client, settings, now).await?.iter().map(|report| report.expired).sum();
    record_before(client, actor, AuditAction::RunRetention, "expired rows", None).await?;
    observer.begin(ProgressStep::RemoveExpired, expired);
    let mut reports: Vec<RemovedReport> = Vec::new();
    for rule in RULES {
        let first = reports.len();
        reports.extend(rule.tables.iter().map(|what| RemovedReport { what, removed: 0 }));
        let Some(cutoff) = rule.period(settings).cutoff(now) else { continue };
        let mut next = Some(rule.start());
        while let Some(from) = next {
            let step = step_when_free(client, rule, cutoff, &from).await?;
            for (report, removed) in reports[first..].iter_mut().zip(step.removed) {
                report.removed += removed;
            }
            observer.reached(total(&reports));
            next = step.next;
        }
    }
    observer.end(total(&reports));
    Ok(reports)
}

fn total(reports: &[RemovedReport]) -> u64 {
    reports.iter().map(|report| report.removed).sum()
}

/// One step of a rule. Waits while another copy is at work.
async fn step_when_free(client: &mut Client, rule: &Rule, cutoff: DateTime<Utc>, from: &Position) -> Result<Step> {
    for _ in 0..BUSY_WAITS_MAX {
        let step = transact(client, async |tx| Ok(rule.step(tx, cutoff, from).await?)).await?;
        if let Some(step) = step {
            return Ok(step);
        }
        sleep(BUSY_WAIT).await;
    }
    Err(AdminError::RetentionBusy)
}
