//! Schema migrations, compiled in from `sql/` (its README has the rules for them).
//!
//! A migration runs in one transaction together with its row in the history, unless its first line is
//! `-- outside a transaction`: `CREATE INDEX CONCURRENTLY`, which leaves a live table writable, is refused in a transaction.
//! Such a file is executed statement by statement ([`outside_transaction`]).
//!
//! A statement that changes a live table waits for its lock for a short time only, and is tried again: every later query of the
//! table would wait behind it, for as long as a session, such as a dump, reads the table.

use super::outside_transaction::{self, DROP_PROGRESS};
use super::schema_check::read_history;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use std::time::Duration;
use thiserror::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Transaction};

/// Key of the session lock that prevents concurrent runs; an arbitrary number.
const LOCK: i64 = 0x636f_6e6e_6563_7401;

/// Time between two attempts to lock. A session that waits inside Postgres would hold a snapshot, and
/// `CREATE INDEX CONCURRENTLY` in the other session would wait for it: a deadlock.
const LOCK_RETRY: Duration = Duration::from_millis(200);

/// Longest wait for a lock of a table. More than `deadlock_timeout` (1 s): after that Postgres ends an autovacuum that holds it.
const LIMIT_LOCK_WAITS: &str = "SET LOCAL lock_timeout = '2s'";

/// Pause before the next attempt, in which the queries that waited behind the last one are executed.
const TABLE_LOCK_RETRY: Duration = Duration::from_secs(3);

/// What an operator is told before it.
const TABLE_LOCKED: &str = "another session, such as a dump, holds a table that it changes; trying again until that session ends its transaction";

/// All migrations, in the order of their versions.
pub(super) const MIGRATIONS: &[Migration] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

const CREATE_HISTORY: &str = "
    CREATE TABLE IF NOT EXISTS schema_history (
        version    integer     PRIMARY KEY,
        name       text        NOT NULL,
        checksum   text        NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    );
    COMMENT ON TABLE  schema_history IS 'The migrations that connectctl migrate has applied.';
    COMMENT ON COLUMN schema_history.version IS 'The number in the name of the file: the order of migrations.';
    COMMENT ON COLUMN schema_history.name IS 'The rest of the name of the file, without its ending.';
    COMMENT ON COLUMN schema_history.checksum IS 'SHA-256 of the file, in hexadecimal.';
    COMMENT ON COLUMN schema_history.applied_at IS 'When it was applied.'";

const ADD_TO_HISTORY: &str = "INSERT INTO schema_history (version, name, checksum) VALUES ($1, $2, $3)";

/// Why the schema could not be migrated.
#[derive(Debug, Error)]
pub enum MigrateError {
    /// The history could not be read or locked.
    #[error("the schema's history could not be read")]
    Database(#[from] tokio_postgres::Error),
    /// A statement of a migration failed.
    #[error("migration {migration} failed")]
    Failed {
        /// Such as `V1__tables`.
        migration: String,
        /// The error of Postgres.
        source: tokio_postgres::Error,
    },
    /// An index could not be built.
    #[error("the index {0} is invalid; run the command again, which builds it again")]
    InvalidIndex(String),
    /// The database was migrated by a later release.
    #[error("the schema is of a later release: it has migration V{0}, which this program does not know")]
    Newer(i32),
    /// The database was set up with other migrations.
    #[error(transparent)]
    Different(#[from] DifferentSchema),
    /// The database cannot hold every text.
    #[error(transparent)]
    Unusable(#[from] UnusableDatabase),
}

/// The database lacks characters, so that some names could not be stored, or the rules by which names are searched.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct UnusableDatabase(pub(super) String);

/// The database was not set up by this release or by one that it can follow.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "the database was set up with other migrations than those of this program: {0}; use a new database (`make clean` deletes the one of `make run`)"
)]
pub struct DifferentSchema(pub(super) String);

/// A file with statements that change the schema.
#[derive(Clone, Copy, Debug)]
pub struct Migration {
    pub(super) version: i32,
    name: &'static str,
    sql: &'static str,
}

impl Migration {
    /// `version` orders migrations; `name` says what the migration is about, in words that are joined by `_`; `sql` is the file.
    pub const fn new(version: i32, name: &'static str, sql: &'static str) -> Self {
        Self { version, name, sql }
    }

    pub(super) fn full_name(&self) -> String {
        format!("V{}__{}", self.version, self.name)
    }

    fn checksum(&self) -> String {
        hex::encode(Sha256::digest(self.sql))
    }
}

/// The migrations that a database lacks, to be applied one by one. Only one run at a time: a second one waits for the
/// first one's [`end`](Self::end), or for the end of its session.
#[derive(Debug)]
pub struct Migrations<'a> {
    client: &'a mut Client,
    missing: VecDeque<&'static Migration>,
}

impl<'a> Migrations<'a> {
    /// Waits for other runs, verifies the history, and finds out which migrations of this release are missing.
    pub async fn begin(client: &'a mut Client) -> Result<Self, MigrateError> {
        Self::begin_with(client, MIGRATIONS).await
    }

    /// The same with other migrations than those of this release, in the order of their versions.
    pub async fn begin_with(client: &'a mut Client, known: &'static [Migration]) -> Result<Self, MigrateError> {
        while !client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).await?.get::<_, bool>(0) {
            tokio::time::sleep(LOCK_RETRY).await;
        }
        let applied = read_history(client).await?;
        let missing = missing(known, &applied)?.into();
        if applied.is_empty() {
            client.batch_execute(CREATE_HISTORY).await?;
        }
        Ok(Self { client, missing })
    }

    /// Number of migrations that are missing.
    pub fn remaining(&self) -> usize {
        self.missing.len()
    }

    /// The name of the next one, such as `V1__tables`.
    pub fn next_name(&self) -> Option<String> {
        self.missing.front().map(|next| next.full_name())
    }

    /// Applies the next one and records it in the history. `record` adds to the same transaction. `progress` gets texts about a
    /// migration that has several steps, or waits for other sessions.
    pub async fn apply_next<E: From<MigrateError>>(
        &mut self, progress: &mut dyn FnMut(&str), record: impl AsyncFn(&Transaction<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(next) = self.missing.front() else { return Ok(()) };
        let failed = |error| match error {
            MigrateError::Database(source) => MigrateError::Failed { migration: next.full_name(), source },
            error @ (MigrateError::Failed { .. }
            | MigrateError::InvalidIndex(_)
            | MigrateError::Newer(_)
            | MigrateError::Different(_)
            | MigrateError::Unusable(_)) => error,
        };
        let sql = match outside_transaction::split(next.sql) {
            None => next.sql,
            Some(statements) => {
                outside_transaction::execute(self.client, next.version, &statements, progress).await.map_err(failed)?;
                DROP_PROGRESS
            }
        };
        loop {
            let transaction = begin_bounded(self.client).await.map_err(|error| failed(error.into()))?;
            match complete(&transaction, next, sql).await {
                Ok(()) => {
                    record(&transaction).await?;
                    transaction.commit().await.map_err(|error| failed(error.into()))?;
                    break;
                }
                Err(error) if is_lock_timeout(&error) => {
                    transaction.rollback().await.map_err(|error| failed(error.into()))?;
                    wait_for_table_lock(progress).await;
                }
                Err(error) => return Err(failed(error.into()).into()),
            }
        }
        self.missing.pop_front();
        Ok(())
    }

    /// The session that holds the lock of the run.
    pub fn client(&mut self) -> &mut Client {
        self.client
    }

    /// Releases the lock, so that the next run can begin.
    pub async fn end(self) -> Result<(), MigrateError> {
        self.client.execute("SELECT pg_advisory_unlock($1)", &[&LOCK]).await?;
        Ok(())
    }
}

/// The names of the migrations that the database lacks, without waiting for a run that is under way. The error says that the history
/// is of a later release, or differs.
pub async fn missing_migrations(client: &Client) -> Result<Vec<String>, MigrateError> {
    let applied = read_history(client).await?;
    Ok(missing(MIGRATIONS, &applied)?.into_iter().map(Migration::full_name).collect())
}

/// A row of the history.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    pub(super) version: i32,
    pub(super) name: String,
    pub(super) checksum: String,
}

/// The migrations that the history lacks. It must consist of the first ones, unchanged.
pub(super) fn missing<'m>(known: &'m [Migration], applied: &[Applied]) -> Result<Vec<&'m Migration>, MigrateError> {
    for (index, applied) in applied.iter().enumerate() {
        let Some(known) = known.get(index) else { return Err(MigrateError::Newer(applied.version)) };
        if (applied.version, applied.name.as_str(), &applied.checksum) != (known.version, known.name, &known.checksum())
        {
            let difference = format!(
                "it has V{}__{} in place of {}, or another version of it",
                applied.version,
                applied.name,
                known.full_name()
            );
            return Err(DifferentSchema(difference).into());
        }
    }
    Ok(known.iter().skip(applied.len()).collect())
}

/// A transaction that does not wait for a lock for long.
pub(super) async fn begin_bounded(client: &mut Client) -> Result<Transaction<'_>, tokio_postgres::Error> {
    let transaction = client.transaction().await?;
    transaction.batch_execute(LIMIT_LOCK_WAITS).await?;
    Ok(transaction)
}

/// Whether a statement of such a transaction has waited in vain.
pub(super) fn is_lock_timeout(error: &tokio_postgres::Error) -> bool {
    error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
}

/// Lets the queries go first that waited behind the last attempt.
pub(super) async fn wait_for_table_lock(progress: &mut dyn FnMut(&str)) {
    progress(TABLE_LOCKED);
    tokio::time::sleep(TABLE_LOCK_RETRY).await;
}

/// Executes statements and records the migration in the history.
async fn complete(
    transaction: &Transaction<'_>, migration: &Migration, sql: &str,
) -> Result<(), tokio_postgres::Error> {
    transaction.batch_execute(sql).await?;
    let row: [&(dyn ToSql + Sync); 3] = [&migration.version, &migration.name, &migration.checksum()];
    transaction.execute(ADD_TO_HISTORY, &row).await?;
    Ok(())
}
