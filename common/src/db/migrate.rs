//! Schema migrations, compiled in from `sql/` (its README has the rules for them).
//!
//! A migration runs in one transaction together with its row in the history, unless its first line is
//! `-- outside a transaction`: `CREATE INDEX CONCURRENTLY`, which leaves a live table writable, is refused in a transaction.
//! Such a file is executed statement by statement ([`outside_transaction`]). Files that had landed before that rule have a second
//! form in `sql/online`, which is executed instead; the history has the checksum of the first.
//!
//! A statement that changes a live table waits for its lock for a short time only, and is tried again: every later query of the
//! table would wait behind it, for as long as a session, such as a dump, reads the table.

use super::outside_transaction::{self, DROP_PROGRESS};
use siphasher::sip::SipHasher13;
use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
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
const MIGRATIONS: &[Migration] = include!(concat!(env!("OUT_DIR"), "/migrations.rs"));

/// The history keeps the name and the columns that earlier releases gave it, so that they and this one understand the
/// same databases.
const CREATE_HISTORY: &str = "CREATE TABLE IF NOT EXISTS refinery_schema_history (
    version int4 PRIMARY KEY, name varchar(255), applied_on varchar(255), checksum varchar(255))";

const READ_HISTORY: &str = "SELECT version, name, checksum FROM refinery_schema_history ORDER BY version";

const ADD_TO_HISTORY: &str = "INSERT INTO refinery_schema_history (version, name, applied_on, checksum)
    VALUES ($1, $2, to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), $3)";

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
    /// The file differs from the one that was applied.
    #[error("migration {0} was changed after it had been applied to this database")]
    Changed(String),
    /// The database was migrated by a later release.
    #[error("the schema is of a later release: it has migration V{0}, which this program does not know")]
    Newer(i32),
    /// The history lacks a migration that is older than the last one applied.
    #[error("the schema's history lacks migration {0}, although a later one was applied")]
    Missing(String),
}

#[derive(Clone, Copy, Debug)]
struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
    /// Executed instead of `sql`, with the same effect, if it has landed with statements that block writes for long.
    online: Option<&'static str>,
}

impl Migration {
    fn full_name(&self) -> String {
        format!("V{}__{}", self.version, self.name)
    }

    /// The checksum that the history holds in decimal digits.
    fn checksum(&self) -> String {
        let mut hasher = SipHasher13::new();
        self.name.hash(&mut hasher);
        self.version.hash(&mut hasher);
        self.sql.hash(&mut hasher);
        hasher.finish().to_string()
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
    /// Waits for other runs, verifies the history, and finds out which migrations are missing.
    pub async fn begin(client: &'a mut Client) -> Result<Self, MigrateError> {
        while !client.query_one("SELECT pg_try_advisory_lock($1)", &[&LOCK]).await?.get::<_, bool>(0) {
            tokio::time::sleep(LOCK_RETRY).await;
        }
        client.batch_execute(CREATE_HISTORY).await?;
        let applied = read_history(client).await?;
        Ok(Self { client, missing: missing(MIGRATIONS, &applied)?.into() })
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
        &mut self,
        progress: &mut dyn FnMut(&str),
        record: impl AsyncFn(&Transaction<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(next) = self.missing.front() else { return Ok(()) };
        let failed = |error| match error {
            MigrateError::Database(source) => MigrateError::Failed { migration: next.full_name(), source },
            error @ (MigrateError::Failed { .. }
            | MigrateError::InvalidIndex(_)
            | MigrateError::Changed(_)
            | MigrateError::Newer(_)
            | MigrateError::Missing(_)) => error,
        };
        let executed = next.online.unwrap_or(next.sql);
        let (sql, last) = match outside_transaction::split(executed) {
            None => (executed, ""),
            Some((statements, rest)) => {
                outside_transaction::execute(self.client, next.version, &statements, progress)
                    .await
                    .map_err(failed)?;
                (rest, DROP_PROGRESS)
            }
        };
        loop {
            let transaction = begin_bounded(self.client).await.map_err(|error| failed(error.into()))?;
            match complete(&transaction, next, sql, last).await {
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
    let exists = client.query_one("SELECT to_regclass('refinery_schema_history') IS NOT NULL", &[]).await?;
    let applied = if exists.get(0) { read_history(client).await? } else { Vec::new() };
    Ok(missing(MIGRATIONS, &applied)?.into_iter().map(Migration::full_name).collect())
}

async fn read_history(client: &Client) -> Result<Vec<Applied>, tokio_postgres::Error> {
    let history = client.query(READ_HISTORY, &[]).await?;
    let applied =
        history.iter().map(|row| Applied { version: row.get(0), name: row.get(1), checksum: row.get(2) });
    Ok(applied.collect())
}

/// A row of the history.
#[derive(Debug)]
struct Applied {
    version: i32,
    name: String,
    checksum: String,
}

/// The migrations that the history lacks. It must consist of the first ones, unchanged.
fn missing<'m>(known: &'m [Migration], applied: &[Applied]) -> Result<Vec<&'m Migration>, MigrateError> {
    for (index, applied) in applied.iter().enumerate() {
        let Some(known) = known.get(index) else { return Err(MigrateError::Newer(applied.version)) };
        if applied.version > known.version {
            return Err(MigrateError::Missing(known.full_name()));
        }
        if applied.version != known.version
            || applied.name != known.name
            || applied.checksum != known.checksum()
        {
            return Err(MigrateError::Changed(known.full_name()));
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
    transaction: &Transaction<'_>,
    migration: &Migration,
    sql: &str,
    last: &str,
) -> Result<(), tokio_postgres::Error> {
    transaction.batch_execute(sql).await?;
    let row: [&(dyn ToSql + Sync); 3] = [&migration.version, &migration.name, &migration.checksum()];
    transaction.execute(ADD_TO_HISTORY, &row).await?;
    transaction.batch_execute(last).await
}

/// Number and name of each migration that this program knows.
pub(super) fn known_migrations() -> Vec<(i32, String)> {
    MIGRATIONS.iter().map(|migration| (migration.version, migration.full_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &[Migration] = &[
        Migration { version: 1, name: "first", sql: "SELECT 1;", online: None },
        Migration { version: 2, name: "second", sql: "SELECT 2;", online: None },
    ];

    fn applied(migration: &Migration) -> Applied {
        let (version, name, checksum) = (migration.version, migration.name.to_owned(), migration.checksum());
        Applied { version, name, checksum }
    }

    #[test]
    fn lists_what_the_history_lacks() {
        let names = |applied: &[Applied]| -> Vec<String> {
            missing(KNOWN, applied)
                .expect("a valid history")
                .iter()
                .map(|missing| missing.full_name())
                .collect()
        };
        assert_eq!(names(&[]), ["V1__first", "V2__second"]);
        assert_eq!(names(&[applied(&KNOWN[0])]), ["V2__second"]);
        assert!(names(&[applied(&KNOWN[0]), applied(&KNOWN[1])]).is_empty());
    }

    #[test]
    fn refuses_a_history_that_differs() {
        let changed = Applied { checksum: "1".to_owned(), ..applied(&KNOWN[0]) };
        assert!(
            matches!(missing(KNOWN, &[changed]), Err(MigrateError::Changed(name)) if name == "V1__first")
        );
        assert!(matches!(
            missing(KNOWN, &[applied(&KNOWN[1])]),
            Err(MigrateError::Missing(name)) if name == "V1__first"
        ));
        let later = Applied { version: 3, name: "third".to_owned(), checksum: "3".to_owned() };
        let history = [applied(&KNOWN[0]), applied(&KNOWN[1]), later];
        assert!(matches!(missing(KNOWN, &history), Err(MigrateError::Newer(3))));
    }

    /// Databases hold the checksums that earlier releases computed.
    #[test]
    fn checksums_are_those_of_earlier_releases() {
        let checksum = |version| {
            MIGRATIONS.iter().find(|migration| migration.version == version).expect("a migration").checksum()
        };
        assert_eq!(
            (checksum(1).as_str(), checksum(12).as_str()),
            ("13812758793934836738", "16120191322451441251")
        );
    }

    #[test]
    fn versions_ascend() {
        assert!(MIGRATIONS.windows(2).all(|pair| pair[0].version < pair[1].version));
    }
}
