//! What expires: rows of the database and messages of dead-letter queues. The worker removes them by itself, in the same steps.

use crate::audit::{Actor, AuditAction, record_before};
use crate::transaction::transact;
use crate::{AdminError, Notice, Observer, ProgressStep, SilentObserver};
use chrono::{DateTime, Utc};
use common::broker::OperatorConnection;
use common::retention::{
    DEAD_LETTERS, DeadLetterReport, Position, RetentionError, Rule, count_dead_letters, expire_dead_letters,
};
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
    /// The name of the table; `dead_letters` are messages of dead-letter queues.
    pub what: &'static str,
    /// How long its rows are kept, such as `30d`; `off` keeps them.
    pub keep: String,
    /// Rows or messages that have expired.
    #[serde(rename = "due")]
    pub expired: u64,
}

/// How much of a table was removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RemovedReport {
    /// The name of the table; `dead_letters` are messages of dead-letter queues.
    pub what: &'static str,
    /// Rows or messages that were removed.
    pub removed: u64,
}

/// What has expired at `now`. Without a `broker` no dead letters are counted.
pub async fn plan(
    client: &mut Client,
    broker: Option<&OperatorConnection>,
    settings: &RetentionSettings,
    now: DateTime<Utc>,
    observer: &mut impl Observer,
) -> Result<Vec<ExpiredReport>, AdminError> {
    let mut reports = Vec::new();
    for rule in Rule::all() {
        let period = rule.period(settings);
        let expired = match period.cutoff(now) {
            Some(cutoff) => rule.count_expired(client, cutoff).await?,
            None => rule.tables().into_iter().map(|table| (table, 0)).collect(),
        };
        let report = |(what, expired)| ExpiredReport { what, keep: period.to_string(), expired };
        reports.extend(expired.into_iter().map(report));
    }
    let counted = match (settings.dead_letters.cutoff(now), broker) {
        (Some(cutoff), Some(broker)) => {
            let tx = client.transaction().await?;
            count_dead_letters(&tx, broker, cutoff).await?
        }
        (Some(_) | None, _) => DeadLetterReport::default(),
    };
    if counted.has_unread {
        observer.notice(Notice::OldestDeadLettersCounted);
    }
    let keep = settings.dead_letters.to_string();
    reports.push(ExpiredReport { what: DEAD_LETTERS, keep, expired: counted.expired });
    Ok(reports)
}

/// Removes what has expired at `now`. Without a `broker` no dead letters are removed. The dead-letter queues are scanned until
/// all that have expired are removed, or a scan removes none.
pub async fn run(
    client: &mut Client,
    actor: &Actor,
    broker: Option<&OperatorConnection>,
    settings: &RetentionSettings,
    now: DateTime<Utc>,
    observer: &mut impl Observer,
) -> Result<Vec<RemovedReport>, AdminError> {
    let plan = plan(client, broker, settings, now, &mut SilentObserver).await?;
    let expired: u64 = plan.iter().map(|report| report.expired).sum();
    record_before(client, actor, AuditAction::RunRetention, "expired rows and messages", None).await?;
    observer.begin(ProgressStep::RemoveExpired, expired);
    let mut reports: Vec<RemovedReport> = Vec::new();
    for rule in Rule::all() {
        let first = reports.len();
        reports.extend(rule.tables().into_iter().map(|what| RemovedReport { what, removed: 0 }));
        let Some(cutoff) = rule.period(settings).cutoff(now) else { continue };
        let mut next = Some(Position::START);
        while let Some(from) = next {
            let step = until_free(async || {
                transact(client, async |tx| Ok(rule.step(tx, cutoff, from).await?)).await
            });
            let step = step.await?;
            for (report, (_, removed)) in reports[first..].iter_mut().zip(step.removed) {
                report.removed += removed;
            }
            observer.reached(total(&reports));
            next = step.next;
        }
    }
    reports.push(RemovedReport { what: DEAD_LETTERS, removed: 0 });
    let dead_letters = reports.len() - 1;
    if let (Some(cutoff), Some(broker)) = (settings.dead_letters.cutoff(now), broker) {
        let mut should_repeat = true;
        while should_repeat {
            let scan = until_free(async || {
                transact(client, async |tx| Ok(expire_dead_letters(tx, broker, cutoff).await?)).await
            });
            let scan = scan.await?;
            reports[dead_letters].removed += scan.expired;
            observer.reached(total(&reports));
            should_repeat = scan.should_repeat;
            if scan.has_unread && !should_repeat {
                observer.notice(Notice::DeadLettersNotReached);
            }
        }
    }
    observer.end(total(&reports));
    Ok(reports)
}

fn total(reports: &[RemovedReport]) -> u64 {
    reports.iter().map(|report| report.removed).sum()
}

/// Repeats `attempt` while another copy is at work.
async fn until_free<T>(
    mut attempt: impl AsyncFnMut() -> Result<Option<T>, AdminError>,
) -> Result<T, AdminError> {
    for _ in 0..BUSY_WAITS_MAX {
        if let Some(done) = attempt().await? {
            return Ok(done);
        }
        sleep(BUSY_WAIT).await;
    }
    Err(AdminError::RetentionBusy)
}

impl From<RetentionError> for AdminError {
    fn from(error: RetentionError) -> Self {
        match error {
            RetentionError::Database(error) => error.into(),
            RetentionError::Broker(error) => error.into(),
        }
    }
}
