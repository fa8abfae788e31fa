//! Whether a program and the schema belong together: a program refuses a schema that is too old or too new for it.

use super::connect::connect;
use super::migrate::known_migrations;
use super::statement::Sql;
use crate::settings::DatabaseUrl;
use std::time::Duration;
use thiserror::Error;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

crate::statements! {
    /// Which of the tables exist. A database without a history is not set up yet.
    const TABLES = "-- schema.tables
    SELECT to_regclass('refinery_schema_history') IS NOT NULL, to_regclass('schema_compatibility') IS NOT NULL";

    const APPLIED = "-- schema.applied
    SELECT version FROM refinery_schema_history";

    const OLDEST_PROGRAM = "-- schema.oldest_program
    SELECT oldest_program FROM schema_compatibility";
}

/// All statements, for the tests that prepare and explain them against the schema.
pub const SCHEMA_STATEMENTS: &[Sql] = STATEMENTS;

/// Longest time for the check.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Pause before a check that had no result is repeated.
const CHECK_AGAIN: Duration = Duration::from_secs(1);

/// Why a program does not work with the schema.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SchemaRefusal {
    /// Migrations of this release are missing.
    #[error(
        "the schema is too old for this program: it lacks {missing} migrations, the first one is {first}; run connectctl migrate"
    )]
    TooOld {
        /// Number of missing migrations.
        missing: usize,
        /// The name of the first one.
        first: String,
    },
    /// A later release has removed what this program needs.
    #[error(
        "the schema is too new for this program: it needs programs that know migration V{oldest}, and this one knows V{known}; start the programs of the later release"
    )]
    TooNew {
        /// The migration that a program must know.
        oldest: i32,
        /// The last one that this program knows.
        known: i32,
    },
}

/// What a check has found that did not refuse the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SchemaState {
    /// Program and schema belong together, or the role may not read the history.
    Accepted,
    /// The server cannot be reached.
    Unreachable,
    /// The database has no schema yet.
    NotSetUp,
}

/// Refuses a schema that is too old or too new. A server that cannot be reached, and a database that is not set up yet, are left to the
/// program, which waits for them, and to [`until_refused`].
pub(crate) async fn verify_schema(url: &DatabaseUrl) -> Result<SchemaState, SchemaRefusal> {
    let check = async {
        let mut config = url.config();
        config.application_name("schema");
        let Ok((client, connection)) = connect(url, &config, TIMEOUT).await else {
            return Ok(SchemaState::Unreachable);
        };
        tokio::spawn(connection);
        match read(&client).await {
            Ok(Some((applied, oldest))) => compare(&known_migrations(), &applied, oldest),
            Ok(None) => Ok(SchemaState::NotSetUp),
            Err(error) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                tracing::warn!(
                    error = super::error::describe(&error),
                    "the version of the schema cannot be read; starting without comparing it"
                );
                Ok(SchemaState::Accepted)
            }
            Err(_) => Ok(SchemaState::Unreachable),
        }
    };
    tokio::time::timeout(TIMEOUT, check).await.unwrap_or(Ok(SchemaState::Unreachable))
}

/// Repeats the check until it has a result, and returns its refusal. Does not return if the schema is accepted.
pub(crate) async fn until_refused(url: &DatabaseUrl, mut state: SchemaState) -> SchemaRefusal {
    let mut is_being_set_up = false;
    while state != SchemaState::Accepted {
        is_being_set_up |= state == SchemaState::NotSetUp;
        tokio::time::sleep(CHECK_AGAIN).await;
        match verify_schema(url).await {
            Ok(checked) => state = checked,
            // Its migrations are being applied, one after the other.
            Err(SchemaRefusal::TooOld { .. }) if is_being_set_up => {}
            Err(refusal) => return refusal,
        }
    }
    std::future::pending().await
}

/// The versions that were applied, and the migration that a program must know. `None` for a database that is not set up.
async fn read(client: &Client) -> Result<Option<(Vec<i32>, i32)>, Error> {
    let row = client.query_one(TABLES.as_str(), &[]).await?;
    let (has_history, has_compatibility): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    if !has_history {
        return Ok(None);
    }
    let rows = client.query(APPLIED.as_str(), &[]).await?;
    let applied: Vec<i32> = rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
    let oldest = if has_compatibility {
        client.query_opt(OLDEST_PROGRAM.as_str(), &[]).await?.map_or(Ok(0), |row| row.try_get(0))?
    } else {
        0
    };
    // The history is created before the first migration is applied.
    Ok((!applied.is_empty()).then_some((applied, oldest)))
}

fn compare(known: &[(i32, String)], applied: &[i32], oldest: i32) -> Result<SchemaState, SchemaRefusal> {
    let last = known.last().map_or(0, |(version, _)| *version);
    if oldest > last {
        return Err(SchemaRefusal::TooNew { oldest, known: last });
    }
    let missing: Vec<&String> =
        known.iter().filter(|(version, _)| !applied.contains(version)).map(|(_, name)| name).collect();
    match missing.first() {
        Some(first) => Err(SchemaRefusal::TooOld { missing: missing.len(), first: (*first).clone() }),
        None => Ok(SchemaState::Accepted),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_needs_its_own_migrations_and_tolerates_later_ones() {
        let known = [(1, "V1__a".to_owned()), (4, "V4__b".to_owned())];
        assert_eq!(compare(&known, &[1, 4], 1), Ok(SchemaState::Accepted));
        assert_eq!(compare(&known, &[1, 4, 5, 9], 4), Ok(SchemaState::Accepted));
        let too_old = compare(&known, &[1], 1);
        assert_eq!(too_old, Err(SchemaRefusal::TooOld { missing: 1, first: "V4__b".to_owned() }));
        // A later release that does not work with this one is too new, whatever is missing.
        assert_eq!(compare(&known, &[1, 4, 5], 5), Err(SchemaRefusal::TooNew { oldest: 5, known: 4 }));
    }
}
