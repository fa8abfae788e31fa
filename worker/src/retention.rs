//! Removes expired rows and dead letters in the background.
//!
//! Every worker does this, one at a time: each step holds a lock of the database. A step is short, and a pause of the same length
//! follows it, so that a large number of expired rows takes half of one connection's time at most.

use chrono::{DateTime, Utc};
use common::broker::OperatorConnection;
use common::clock;
use common::db::{Database, TransactionBody, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::metrics::{RETENTION_BEHIND, RETENTION_REMOVED, register_counter};
use common::retention::{DEAD_LETTERS, Position, RetentionError, Rule, Step, expire_dead_letters};
use common::settings::{BrokerSettings, RetentionSettings};
use deadpool_postgres::Transaction;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// Time between two rounds over all rules.
const ROUND_INTERVAL: Duration = Duration::from_secs(60);
/// Time between two scans of the dead-letter queues; each opens a connection to the broker.
const SCAN_INTERVAL: Duration = Duration::from_secs(600);
/// Time after which a rule begins with the oldest rows again. In between, a pass begins where the one before has ended, so
/// that it reads neither index entries of removed rows nor expired rows that are still needed again.
const RESTART_INTERVAL: Duration = Duration::from_secs(3_600);
/// Longest time of a pass: for one rule before the next one is applied.
const PASS_TIME_MAX: Duration = Duration::from_secs(10);
/// The shortest pause after a step.
const PAUSE_MIN: Duration = Duration::from_millis(5);

/// Limits the log lines about failures.
static FAILED: LogLimit<1> = LogLimit::new();

/// Removes what has expired.
#[derive(Debug)]
pub(crate) struct Retention {
    database: Database,
    broker: BrokerSettings,
    settings: RetentionSettings,
    shutdown: CancellationToken,
}

/// How far a rule has come.
#[derive(Debug)]
struct Progress {
    rule: Rule,
    position: Position,
    restart_at: Instant,
    clean: CleanSince,
}

/// How a pass of one rule, or a scan of the dead-letter queues, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassOutcome {
    /// Nothing that has expired is left.
    Clean,
    /// Other rules come first, or the program shuts down.
    HasMore,
    /// Another copy is at work.
    Busy,
}

/// When retention of one kind last caught up: no expired row or message was left. The start of the program counts.
#[derive(Debug)]
struct CleanSince {
    what: &'static str,
    since: Instant,
}

impl CleanSince {
    fn new(what: &'static str) -> Self {
        let new = Self { what, since: Instant::now() };
        new.set_gauge();
        new
    }

    fn set_gauge(&self) {
        metrics::gauge!(RETENTION_BEHIND, "what" => self.what).set(self.since.elapsed().as_secs_f64());
    }

    /// After a pass.
    fn update(&mut self, outcome: &Result<PassOutcome, TxError>) {
        let what = self.what;
        match outcome {
            Ok(PassOutcome::Clean) => self.since = Instant::now(),
            // A copy that is at work knows better how far it has come.
            Ok(PassOutcome::HasMore | PassOutcome::Busy) => {}
            Err(error) => {
                limited!(FAILED[0], warn, %error, what, "removing expired rows or messages failed; trying again in the next pass");
            }
        }
        self.set_gauge();
    }
}

impl Retention {
    pub(crate) const fn new(
        database: Database,
        broker: BrokerSettings,
        settings: RetentionSettings,
        shutdown: CancellationToken,
    ) -> Self {
        Self { database, broker, settings, shutdown }
    }

    /// Removes what expires until the program shuts down.
    pub(crate) async fn run(self) {
        let expiring = |rule: &Rule| rule.period(&self.settings).cutoff(clock::now()).is_some();
        let mut rules: Vec<Progress> = Rule::all().into_iter().filter(expiring).map(Progress::new).collect();
        let mut dead_letters = self.settings.dead_letters.cutoff(clock::now()).map(|_| {
            register_counter(RETENTION_REMOVED, &[("what", DEAD_LETTERS)]);
            (CleanSince::new(DEAD_LETTERS), Instant::now())
        });
        while !self.shutdown.is_cancelled() {
            let (mut has_more, mut is_clean) = (false, true);
            for progress in &mut rules {
                if progress.rule.needs_previous_rule_done() && !is_clean {
                    progress.clean.set_gauge();
                    continue;
                }
                let outcome = self.pass(progress).await;
                progress.clean.update(&outcome);
                has_more |= matches!(outcome, Ok(PassOutcome::HasMore));
                is_clean = matches!(outcome, Ok(PassOutcome::Clean));
            }
            if let Some((clean, scan_at)) =
                dead_letters.as_mut().filter(|(_, scan_at)| Instant::now() >= *scan_at)
            {
                *scan_at = Instant::now() + SCAN_INTERVAL;
                clean.update(&self.scan_dead_letters().await);
            }
            if !has_more {
                self.shutdown.run_until_cancelled(sleep(ROUND_INTERVAL)).await;
            }
        }
    }

    /// Applies a rule step by step.
    async fn pass(&self, progress: &mut Progress) -> Result<PassOutcome, TxError> {
        let Some(cutoff) = progress.rule.period(&self.settings).cutoff(clock::now()) else {
            return Ok(PassOutcome::Clean);
        };
        let pass_began = Instant::now();
        while !self.shutdown.is_cancelled() && pass_began.elapsed() < PASS_TIME_MAX {
            let step_began = Instant::now();
            let step = ExpireRows { rule: progress.rule, cutoff, from: progress.position };
            let Some(step) = self.database.run_tx("retention", &step).await? else {
                return Ok(PassOutcome::Busy);
            };
            for (what, removed) in step.removed {
                metrics::counter!(RETENTION_REMOVED, "what" => what).increment(removed);
            }
            let Some(next) = step.next else {
                progress.finish();
                return Ok(PassOutcome::Clean);
            };
            progress.position = next;
            self.shutdown.run_until_cancelled(sleep(step_began.elapsed().max(PAUSE_MIN))).await;
        }
        Ok(PassOutcome::HasMore)
    }

    /// Removes expired dead letters.
    async fn scan_dead_letters(&self) -> Result<PassOutcome, TxError> {
        let Some(cutoff) = self.settings.dead_letters.cutoff(clock::now()) else {
            return Ok(PassOutcome::Clean);
        };
        let opened = OperatorConnection::open(&self.broker, "connect-worker retention").await;
        let broker = opened.map_err(|error| TxError::Unavailable(error.to_string()))?;
        let scan = ExpireDeadLetters { broker: &broker, cutoff };
        let removed = self.database.run_tx("retention", &scan).await;
        // What the scan has kept returns to its queue when the connection closes, however it is closed.
        drop(broker.close().await);
        let Some(removed) = removed? else { return Ok(PassOutcome::Busy) };
        metrics::counter!(RETENTION_REMOVED, "what" => DEAD_LETTERS).increment(removed);
        Ok(PassOutcome::Clean)
    }
}

impl Progress {
    fn new(rule: Rule) -> Self {
        for table in rule.tables() {
            register_counter(RETENTION_REMOVED, &[("what", table)]);
        }
        let restart_at = Instant::now() + RESTART_INTERVAL;
        Self { rule, position: Position::START, restart_at, clean: CleanSince::new(rule.name()) }
    }

    /// After everything that has expired was removed: from time to time the next pass begins with the oldest rows.
    fn finish(&mut self) {
        if Instant::now() >= self.restart_at {
            self.position = Position::START;
            self.restart_at = Instant::now() + RESTART_INTERVAL;
        }
    }
}

/// One step of a rule.
struct ExpireRows {
    rule: Rule,
    cutoff: DateTime<Utc>,
    from: Position,
}

impl TransactionBody for ExpireRows {
    type Output = Option<Step>;

    async fn run(&self, tx: &Transaction<'_>) -> Result<Option<Step>, TxError> {
        Ok(self.rule.step(tx, self.cutoff, self.from).await?)
    }
}

/// One scan of the dead-letter queues.
struct ExpireDeadLetters<'b> {
    broker: &'b OperatorConnection,
    cutoff: DateTime<Utc>,
}

impl TransactionBody for ExpireDeadLetters<'_> {
    type Output = Option<u64>;

    async fn run(&self, tx: &Transaction<'_>) -> Result<Option<u64>, TxError> {
        expire_dead_letters(tx, self.broker, self.cutoff).await.map_err(|error| match error {
            RetentionError::Database(error) => error.into(),
            RetentionError::Broker(error) => TxError::Unavailable(error.to_string()),
        })
    }
}
