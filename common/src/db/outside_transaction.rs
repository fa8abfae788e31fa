//! Migrations that are executed outside a transaction, statement by statement: indexes on live tables.
//!
//! What was executed is recorded, so that an interrupted run continues with the statement that it did not finish. An index that the
//! interrupted statement has left invalid is dropped first. The record is removed together with the migration's entry in the
//! history.

use super::migrate::{MigrateError, begin_bounded, is_lock_timeout, wait_for_table_lock};
use std::collections::HashSet;
use tokio_postgres::Client;

/// First line of such a migration.
const OUTSIDE_TRANSACTION: &str = "-- outside a transaction";

const CREATE_PROGRESS: &str = "CREATE TABLE IF NOT EXISTS schema_migration_progress (
    version int4, statement int4, PRIMARY KEY (version, statement))";

const READ_PROGRESS: &str = "SELECT statement FROM schema_migration_progress WHERE version = $1";

const ADD_PROGRESS: &str =
    "INSERT INTO schema_migration_progress (version, statement) VALUES ($1, $2) ON CONFLICT DO NOTHING";

const IS_VALID: &str = "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1)";

/// What removes the record, for the transaction that completes the migration.
pub(super) const DROP_PROGRESS: &str = "DROP TABLE IF EXISTS schema_migration_progress";

/// The statements of a migration that is executed outside a transaction. Each ends with a semicolon at the end of its line.
pub(super) fn split(sql: &str) -> Option<Vec<&str>> {
    let statements = sql.strip_prefix(OUTSIDE_TRANSACTION)?.split_inclusive(";\n").map(str::trim);
    Some(statements.filter(|statement| !statement.is_empty()).collect())
}

/// Executes the statements that are not recorded as executed. `progress` gets a text for each.
pub(super) async fn execute(
    client: &mut Client, version: i32, statements: &[&str], progress: &mut dyn FnMut(&str),
) -> Result<(), MigrateError> {
    client.batch_execute(CREATE_PROGRESS).await?;
    let rows = client.query(READ_PROGRESS, &[&version]).await?;
    let done: HashSet<i32> = rows.iter().map(|row| row.get(0)).collect();
    for (number, statement) in (1..).zip(statements) {
        if done.contains(&number) {
            continue;
        }
        progress(&format!("statement {number} of {}", statements.len()));
        let index = created_index(statement);
        match index {
            // The run before was killed after the index was built and before that was recorded.
            Some(index) if !done.is_empty() && is_valid(client, index).await? == Some(true) => {}
            Some(index) => {
                if is_valid(client, index).await? == Some(false) {
                    client.batch_execute(&format!("DROP INDEX CONCURRENTLY IF EXISTS {index}")).await?;
                }
                client.batch_execute(statement).await?;
            }
            // It does not block the table's queries, and is refused in a transaction.
            None if is_concurrent(statement) => client.batch_execute(statement).await?,
            None => change(client, statement, progress).await?,
        }
        if let Some(index) = index
            && is_valid(client, index).await? != Some(true)
        {
            return Err(MigrateError::InvalidIndex(index.to_owned()));
        }
        client.execute(ADD_PROGRESS, &[&version, &number]).await?;
    }
    Ok(())
}

/// Executes a statement in a transaction of its own.
async fn change(
    client: &mut Client, statement: &str, progress: &mut dyn FnMut(&str),
) -> Result<(), tokio_postgres::Error> {
    loop {
        let transaction = begin_bounded(client).await?;
        match transaction.batch_execute(statement).await {
            Ok(()) => return transaction.commit().await,
            Err(error) if is_lock_timeout(&error) => {
                transaction.rollback().await?;
                wait_for_table_lock(progress).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// Whether an index is valid; `None` if it does not exist.
async fn is_valid(client: &Client, index: &str) -> Result<Option<bool>, tokio_postgres::Error> {
    Ok(client.query_opt(IS_VALID, &[&index]).await?.map(|row| row.get(0)))
}

fn is_concurrent(statement: &str) -> bool {
    first_line(statement).is_some_and(|code| code.contains(" CONCURRENTLY "))
}

/// The first line of a statement that is neither a comment nor empty.
fn first_line(statement: &str) -> Option<&str> {
    statement.lines().find(|line| !line.trim_start().starts_with("--") && !line.trim().is_empty())
}

/// The name of the index that a statement builds concurrently.
fn created_index(statement: &str) -> Option<&str> {
    let words = first_line(statement)?.trim_start().strip_prefix("CREATE ")?;
    let words = words.strip_prefix("UNIQUE ").unwrap_or(words);
    words.strip_prefix("INDEX CONCURRENTLY ")?.split_whitespace().next()
}
