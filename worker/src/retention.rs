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
use common::retention::{
    DEAD_LETTERS, DeadLetterReport, Position, RetentionError, Rule, Step, expire_dead_letters,
};
use common::settings::{BrokerSettings, RetentionSettings};
use deadpool_postgres::Transaction;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};
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
    /// Whether `clean` includes the time before the start of the program.
    is_start_known: bool,
}

/// How a pass of one rule, or a scan of the dead-letter queues, has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PassOutcome {
    /// Nothing that has expired is left.
    Clean,
    /// Other rules come first, the program shuts down, or a scan has not read all dead letters.
    HasMore,
    /// Another copy is at work.
    Busy,
}

/// When retention of one kind last caught up: no expired row or message was left. Until it is known, at least since the start of the
/// program.
#[derive(Debug)]
struct CleanSince {
    what: &'static str,
    since: Instant,
    /// How long retention was behind at `since` already.
    overdue: Duration,
}

impl CleanSince {
    fn new(what: &'static str) -> Self {
        Self { what, since: Instant::now(), overdue: Duration::ZERO }
    }

    /// How long retention has been behind.
    fn behind(&self, now: Instant) -> Duration {
        self.overdue + now.duration_since(self.since)
    }

    fn set_gauge(&self) {
        metrics::gauge!(RETENTION_BEHIND, "what" => self.what).set(self.behind(Instant::now()).as_secs_f64());
    }

    /// After a row was found that has been overdue for so long.
    fn add_overdue(&mut self, overdue: Duration, now: Instant) {
        if overdue > self.behind(now) {
            (self.since, self.overdue) = (now, overdue);
        }
    }

    /// After a pass.
    fn update(&mut self, outcome: &Result<PassOutcome, TxError>, now: Instant) {
        let what = self.what;
        match outcome {
            Ok(PassOutcome::Clean) => (self.since, self.overdue) = (now, Duration::ZERO),
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
            let clean = CleanSince::new(DEAD_LETTERS);
            clean.set_gauge();
            (clean, Instant::now())
        });
        while !self.shutdown.is_cancelled() {
            for progress in rules.iter_mut().filter(|progress| !progress.is_start_known) {
                if !self.shutdown.is_cancelled() {
                    self.find_overdue(progress).await;
                }
            }
            let (mut has_more, mut is_clean) = (false, true);
            for progress in &mut rules {
                if progress.rule.needs_previous_rule_done() && !is_clean {
                    progress.clean.set_gauge();
                    continue;
                }
                let outcome = self.pass(progress).await;
                progress.clean.update(&outcome, Instant::now());
                has_more |= matches!(outcome, Ok(PassOutcome::HasMore));
                is_clean = matches!(outcome, Ok(PassOutcome::Clean));
            }
            if let Some((clean, scan_at)) =
                dead_letters.as_mut().filter(|(_, scan_at)| Instant::now() >= *scan_at)
            {
                let scan_began = Instant::now();
                let scan = self.scan_dead_letters().await;
                let should_repeat = matches!(&scan, Ok(Some(report)) if report.should_repeat);
                *scan_at = Instant::now() + if should_repeat { scan_began.elapsed() } else { SCAN_INTERVAL };
                clean.update(&scan.map(PassOutcome::of_scan), Instant::now());
            }
            if !has_more {
                let next_round = Instant::now() + ROUND_INTERVAL;
                let wake_at =
                    dead_letters.as_ref().map_or(next_round, |(_, scan_at)| next_round.min(*scan_at));
                self.shutdown.run_until_cancelled(sleep_until(wake_at)).await;
            }
        }
    }

    /// Finds out by how much the oldest expired row of a rule is overdue. Without that, the alert would not notice rows that are not
    /// removed while the workers are often restarted.
    async fn find_overdue(&self, progress: &mut Progress) {
        let (rule, now) = (progress.rule, clock::now());
        if let Some(cutoff) = rule.period(&self.settings).cutoff(now) {
            match self.database.run_tx("retention_overdue", &FindOldestExpired { rule, cutoff }).await {
                Ok(oldest) => {
                    let overdue = oldest.and_then(|oldest| (cutoff - oldest).to_std().ok());
                    progress.clean.add_overdue(overdue.unwrap_or_default(), Instant::now());
                    progress.is_start_known = true;
                }
                Err(error) => {
                    let what = rule.name();
                    limited!(FAILED[0], warn, %error, what, "finding the oldest expired row failed; trying again in the next round");
                }
            }
        }
        progress.clean.set_gauge();
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

    /// Removes expired dead letters. `None` while another copy is at work.
    async fn scan_dead_letters(&self) -> Result<Option<DeadLetterReport>, TxError> {
        let Some(cutoff) = self.settings.dead_letters.cutoff(clock::now()) else {
            return Ok(Some(DeadLetterReport::default()));
        };
        let opened = OperatorConnection::open(&self.broker, "connect-worker retention").await;
        let broker = opened.map_err(|error| TxError::Unavailable(error.to_string()))?;
        let scan = ExpireDeadLetters { broker: &broker, cutoff };
        let report = self.database.run_tx("retention", &scan).await;
        // What the scan has kept returns to its queue when the connection closes, however it is closed.
        drop(broker.close().await);
        let report = report?;
        let removed = report.map_or(0, |report| report.expired);
        metrics::counter!(RETENTION_REMOVED, "what" => DEAD_LETTERS).increment(removed);
        Ok(report)
    }
}

impl PassOutcome {
    /// The outcome of a scan of the dead-letter queues.
    const fn of_scan(report: Option<DeadLetterReport>) -> Self {
        match report {
            None => Self::Busy,
            Some(DeadLetterReport { has_unread: true, .. }) => Self::HasMore,
            Some(DeadLetterReport { has_unread: false, .. }) => Self::Clean,
        }
    }
}

impl Progress {
    fn new(rule: Rule) -> Self {
        for table in rule.tables() {
            register_counter(RETENTION_REMOVED, &[("what", table)]);
        }
        let restart_at = Instant::now() + RESTART_INTERVAL;
        let clean = CleanSince::new(rule.name());
        Self { rule, position: Position::START, restart_at, clean, is_start_known: false }
    }

    /// After everything that has expired was removed: from time to time the next pass begins with the oldest rows.
    fn finish(&mut self) {
        self.is_start_known = true;
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

/// The search for the oldest row that a rule should have removed.
struct FindOldestExpired {
    rule: Rule,
    cutoff: DateTime<Utc>,
}

impl TransactionBody for FindOldestExpired {
    type Output = Option<DateTime<Utc>>;

    async fn run(&self, tx: &Transaction<'_>) -> Result<Option<DateTime<Utc>>, TxError> {
        Ok(self.rule.oldest_expired(tx, self.cutoff).await?)
    }
}

/// One scan of the dead-letter queues.
struct ExpireDeadLetters<'b> {
    broker: &'b OperatorConnection,
    cutoff: DateTime<Utc>,
}

impl TransactionBody for ExpireDeadLetters<'_> {
    type Output = Option<DeadLetterReport>;

    async fn run(&self, tx: &Transaction<'_>) -> Result<Option<DeadLetterReport>, TxError> {
        expire_dead_letters(tx, self.broker, self.cutoff).await.map_err(|error| match error {
            RetentionError::Database(error) => error.into(),
            RetentionError::Broker(error) => TxError::Unavailable(error.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_restarted_worker_is_as_far_behind_as_the_oldest_row_until_a_pass_ends_clean() {
        let mut clean = CleanSince::new("deliveries");
        let hour = |number: u32| clean.since + number * HOUR;
        let [start, first, second, third] = [0, 1, 2, 3].map(hour);
        clean.add_overdue(24 * HOUR, start);
        assert_eq!(clean.behind(start), 24 * HOUR);
        clean.update(&Ok(PassOutcome::HasMore), first);
        clean.update(&Ok(PassOutcome::Busy), first);
        assert_eq!(clean.behind(first), 25 * HOUR);
        clean.add_overdue(2 * HOUR, first);
        assert_eq!(clean.behind(first), 25 * HOUR, "it was behind for longer");
        clean.update(&Ok(PassOutcome::Clean), second);
        assert_eq!(clean.behind(second), Duration::ZERO);
        clean.update(&Err(TxError::Unavailable("no connection".to_owned())), third);
        assert_eq!(clean.behind(third), HOUR);
    }

    #[test]
    fn a_scan_that_has_not_read_all_dead_letters_is_not_clean() {
        let scan = |has_unread| DeadLetterReport { has_unread, ..DeadLetterReport::default() };
        assert_eq!(PassOutcome::of_scan(Some(scan(true))), PassOutcome::HasMore);
        assert_eq!(PassOutcome::of_scan(Some(scan(false))), PassOutcome::Clean);
        assert_eq!(PassOutcome::of_scan(None), PassOutcome::Busy);
    }
}
