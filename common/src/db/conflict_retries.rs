//! Retrying a transaction after a conflict with another one.

use super::error::is_conflict;
use crate::health;
use std::fmt::Display;
use std::time::Duration;
use tokio::time::sleep;
use tokio_postgres::{Client, Error, Transaction};

/// Maximum number of runs of a transaction that conflicts with others.
const RUNS_MAX: u32 = 5;
/// Wait before the second run; each further wait is longer by as much, so that the other transactions can end.
const FIRST_WAIT: Duration = Duration::from_millis(5);

/// Counts the runs of one transaction. All programs retry by this rule.
#[derive(Debug)]
pub(super) struct ConflictRetries {
    name: &'static str,
    run: u32,
}

impl ConflictRetries {
    /// Before the first run of the transaction `name`.
    pub(super) const fn new(name: &'static str) -> Self {
        Self { name, run: 1 }
    }

    /// The number of the run that is under way, counted from 1.
    pub(super) const fn run(&self) -> u32 {
        self.run
    }

    /// After a failed run, which was rolled back: the wait before the next one. `None` if `error` is no conflict, or if that
    /// was the last run.
    pub(super) fn wait_before_next(&mut self, error: &impl Display, is_conflict: bool) -> Option<Duration> {
        if !is_conflict || self.run >= RUNS_MAX {
            return None;
        }
        let (name, wait) = (self.name, FIRST_WAIT * self.run);
        self.run += 1;
        health::beat();
        tracing::debug!(name, run = self.run, %error, "transaction rolled back after a conflict; running it again");
        Some(wait)
    }
}

/// Runs `work` in a transaction on `client` and commits it, as [`Database::run_tx`](super::Database::run_tx) does on a pool.
/// `database_error` extracts the database's error from an error of `work`.
pub async fn transact<T, E: From<Error> + Display>(
    name: &'static str, client: &mut Client, work: impl AsyncFn(&Transaction<'_>) -> Result<T, E>,
    database_error: impl Fn(&E) -> Option<&Error>,
) -> Result<T, E> {
    let mut retries = ConflictRetries::new(name);
    loop {
        let done = run_once(client, &work).await;
        let Err(error) = &done else { return done };
        let is_conflict = database_error(error).and_then(Error::code).is_some_and(is_conflict);
        let Some(wait) = retries.wait_before_next(error, is_conflict) else { return done };
        sleep(wait).await;
    }
}

async fn run_once<T, E: From<Error>>(
    client: &mut Client, work: &impl AsyncFn(&Transaction<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let transaction = client.transaction().await?;
    match work(&transaction).await {
        Ok(done) => {
            transaction.commit().await?;
            Ok(done)
        }
        Err(error) => {
            transaction.rollback().await?;
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_run_five_times() {
        let mut retries = ConflictRetries::new("test");
        let mut runs = vec![retries.run()];
        while retries.wait_before_next(&"conflict", true).is_some() {
            runs.push(retries.run());
        }
        assert_eq!(runs, [1, 2, 3, 4, 5]);
        assert_eq!(retries.wait_before_next(&"conflict", true), None, "the fifth run is the last one");
    }

    #[test]
    fn each_wait_is_longer_and_only_conflicts_are_retried() {
        let mut retries = ConflictRetries::new("test");
        let waits = [(); 3].map(|()| retries.wait_before_next(&"conflict", true));
        assert_eq!(waits, [1, 2, 3].map(|run| Some(FIRST_WAIT * run)));
        assert_eq!(retries.wait_before_next(&"refused", false), None);
    }
}
