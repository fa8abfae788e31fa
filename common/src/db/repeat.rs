//! Running a transaction again when another one was in its way.

use super::error::is_conflict;
use std::time::Duration;
use tokio::time::sleep;
use tokio_postgres::{Client, Error, Transaction};

/// Times a transaction is run when others are in its way.
const RUNS: u32 = 5;
/// Wait before the second run. It grows by as much with each run, so that those in the way get done.
const WAIT: Duration = Duration::from_millis(5);

/// The runs of one transaction: the rule by which all programs repeat theirs.
#[derive(Debug)]
pub struct ConflictRetries(u32);

impl ConflictRetries {
    /// Before the first run.
    #[expect(clippy::new_without_default, reason = "a default number of runs says nothing")]
    pub const fn new() -> Self {
        Self(1)
    }

    /// The number of the run that is under way, counted from 1.
    pub const fn run(&self) -> u32 {
        self.0
    }

    /// After a conflict: waits and begins the next run. `false`, at once, when that was the last one.
    pub async fn begin_next(&mut self) -> bool {
        if self.0 >= RUNS {
            return false;
        }
        sleep(WAIT * self.0).await;
        self.0 += 1;
        true
    }
}

/// Runs `work` in a transaction on `client` and commits it, as [`Database::run_tx`](super::Database::run_tx) does on a pool.
/// `database_error` finds the database's error in one of `work`.
pub async fn transact<T, E: From<Error>>(
    client: &mut Client,
    work: impl AsyncFn(&Transaction<'_>) -> Result<T, E>,
    database_error: impl Fn(&E) -> Option<&Error>,
) -> Result<T, E> {
    let mut retries = ConflictRetries::new();
    loop {
        let error = match run_once(client, &work).await {
            Ok(done) => return Ok(done),
            Err(error) => error,
        };
        let code = database_error(&error).and_then(Error::code);
        if !code.is_some_and(is_conflict) || !retries.begin_next().await {
            return Err(error);
        }
    }
}

async fn run_once<T, E: From<Error>>(
    client: &mut Client,
    work: &impl AsyncFn(&Transaction<'_>) -> Result<T, E>,
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

    #[tokio::test]
    async fn a_transaction_is_run_five_times() {
        let mut retries = ConflictRetries::new();
        let mut runs = vec![retries.run()];
        while retries.begin_next().await {
            runs.push(retries.run());
        }
        assert_eq!(runs, [1, 2, 3, 4, 5]);
        assert!(!retries.begin_next().await, "the fifth run stays the last one");
    }
}
