//! Removes expired rows in the background.
//!
//! Every worker does this, one at a time: each step holds a lock of the database. A step is short, and a pause of the same length
//! follows it, so that a large number of expired rows takes half of one connection's time at most.

use chrono::{DateTime, Utc};
use common::db::{Database, TransactionBody, TxError};
use common::log_limit::LogLimit;
use common::metrics::{RETENTION_BEHIND, RETENTION_REMOVED, register_counter};
use common::retention::{Due, Position, RULES, Rule, Step};
use common::settings::RetentionSettings;
use common::{clock, limited};
use deadpool_postgres::Transaction;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Time between two rounds, and longest time between two looks at what is due.
const INTERVAL: Duration = Duration::from_secs(60);
/// The shortest pause after a step.
const PAUSE_MIN: Duration = Duration::from_millis(5);
/// Maximum number of rows of a table among which the oldest expired one is searched: rows that are old and kept can come first.
const SEARCHED_ROWS: i64 = 5_000;

/// Limits the log lines about failures.
static FAILED: LogLimit<2> = LogLimit::new();

/// Removes what has expired.
#[derive(Debug)]
pub(crate) struct Retention {
    database: Database,
    settings: RetentionSettings,
    shutdown: CancellationToken,
}

impl Retention {
    pub(crate) const fn new(database: Database, settings: RetentionSettings, shutdown: CancellationToken) -> Self {
        Self { database, settings, shutdown }
    }

    /// Removes what expires, and reports what is late, until the program shuts down.
    pub(crate) async fn run(self) {
        for what in self.rules().flat_map(|(rule, _)| rule.tables) {
            register_counter(RETENTION_REMOVED, &[("what", what)]);
        }
        while !self.shutdown.is_cancelled() {
            self.observe().await;
            self.round().await;
            self.observe().await;
            self.shutdown.run_until_cancelled(sleep(INTERVAL)).await;
        }
    }

    /// The rules whose rows are not kept forever, with the time before which rows have expired now.
    fn rules(&self) -> impl Iterator<Item = (&'static Rule, DateTime<Utc>)> {
        RULES.iter().filter_map(|rule| Some((rule, rule.period(&self.settings).cutoff(clock::database_now())?)))
    }

    /// Applies the rules step by step in turn, so that none waits for another one, until nothing that has expired is left, or another
    /// copy is at work. Events of the outbox whose deliveries are still there are read again by the next round.
    async fn round(&self) {
        let mut open: Vec<(&Rule, DateTime<Utc>, Position)> =
            self.rules().map(|(rule, cutoff)| (rule, cutoff, rule.start())).collect();
        let mut observed = Instant::now();
        while !open.is_empty() {
            if observed.elapsed() >= INTERVAL {
                self.observe().await;
                observed = Instant::now();
            }
            for (rule, cutoff, from) in std::mem::take(&mut open) {
                if self.shutdown.is_cancelled() {
                    return;
                }
                let began = Instant::now();
                match self.database.run_tx("retention", &ExpireRows { rule, cutoff, from }).await {
                    Ok(None) => return,
                    Ok(Some(step)) => {
                        for (what, count) in rule.tables.iter().zip(step.removed) {
                            metrics::counter!(RETENTION_REMOVED, "what" => *what).increment(count);
                        }
                        open.extend(step.next.map(|next| (rule, cutoff, next)));
                    }
                    Err(error) => {
                        let what = rule.name();
                        limited!(FAILED[0], warn, %error, what, "removing expired rows failed; trying again in the next round");
                    }
                }
                self.shutdown.run_until_cancelled(sleep(began.elapsed().max(PAUSE_MIN))).await;
            }
        }
    }

    /// Reports for how long the oldest expired row of each table has been due, whoever should have removed it.
    async fn observe(&self) {
        for (rule, cutoff) in self.rules() {
            let what = rule.name();
            match self.database.run_tx("retention_due", &FindDue { rule, cutoff }).await {
                Ok(due) => {
                    let behind = due.oldest.and_then(|oldest| (cutoff - oldest).to_std().ok());
                    let behind = behind.unwrap_or_default().as_secs_f64();
                    metrics::gauge!(RETENTION_BEHIND, "what" => what).set(behind);
                }
                Err(error) => {
                    limited!(FAILED[1], warn, %error, what, "finding the oldest expired row failed; trying again in a minute");
                }
            }
        }
    }
}

/// One step of a rule.
struct ExpireRows {
    rule: &'static Rule,
    cutoff: DateTime<Utc>,
    from: Position,
}

impl TransactionBody for ExpireRows {
    type Output = Option<Step>;

    async fn run(&self, tx: &Transaction<'_>) -> Result<Option<Step>, TxError> {
        Ok(self.rule.step(tx, self.cutoff, &self.from).await?)
    }
}

/// The search for the oldest row that a rule should have removed.
struct FindDue {
    rule: &'static Rule,
    cutoff: DateTime<Utc>,
}

impl TransactionBody for FindDue {
    type Output = Due;

    async fn run(&self, tx: &Transaction<'_>) -> Result<Due, TxError> {
        Ok(self.rule.due(&**tx, self.cutoff, Some(SEARCHED_ROWS)).await?)
    }
}
