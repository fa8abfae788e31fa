//! Whether a program and the schema belong together: a program refuses a schema that is too old or too new for it.

use super::connect::connect;
use super::migrate::{Applied, DifferentSchema, MIGRATIONS, MigrateError, Migration, UnusableDatabase, missing};
use super::statement::Sql;
use crate::settings::DatabaseUrl;
use std::time::Duration;
use thiserror::Error;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

crate::statements! {
    /// Whether the database has a history, whether it has tables of Connect, its encoding, and whether its server knows ICU.
    const TABLES = "-- schema.tables
    SELECT to_regclass('schema_history') IS NOT NULL, to_regclass('tenants') IS NOT NULL, current_setting('server_encoding'),
           EXISTS (SELECT FROM pg_collation WHERE collname = 'und-x-icu')";

    const APPLIED = "-- schema.applied
    SELECT version, name, checksum FROM schema_history ORDER BY version";

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
    /// It is another schema.
    #[error(transparent)]
    Different(#[from] DifferentSchema),
    /// The database cannot hold or search every text.
    #[error(transparent)]
    Unusable(#[from] UnusableDatabase),
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
            Ok(None) => Ok(SchemaState::NotSetUp),
            Ok(Some((applied, oldest))) => compare(MIGRATIONS, &applied, oldest),
            Err(MigrateError::Different(different)) => Err(different.into()),
            Err(MigrateError::Unusable(unusable)) => Err(unusable.into()),
            Err(MigrateError::Database(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
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

/// The migrations that were applied, and the one that a program must know. `None` for a database that is not set up: the history
/// is created before the first migration is applied.
async fn read(client: &Client) -> Result<Option<(Vec<Applied>, i32)>, MigrateError> {
    let applied = read_history(client).await?;
    if applied.is_empty() {
        return Ok(None);
    }
    let oldest = client.query_opt(OLDEST_PROGRAM.as_str(), &[]).await?;
    Ok(Some((applied, oldest.map_or(Ok(0), |row| row.try_get(0))?)))
}

/// The history; empty for a database that is not set up. A database with tables and without a history is refused, and one that cannot
/// hold every text.
pub(super) async fn read_history(client: &Client) -> Result<Vec<Applied>, MigrateError> {
    let tables = client.query_one(TABLES.as_str(), &[]).await?;
    let encoding: &str = tables.get(2);
    if encoding != "UTF8" {
        let why =
            format!("the database's encoding is {encoding}; create it with ENCODING 'UTF8' (and TEMPLATE template0)");
        return Err(UnusableDatabase(why).into());
    }
    let has_icu: bool = tables.get(3);
    if !has_icu {
        let why = "the server was built without ICU, by whose rules names are searched; use PostgreSQL's own packages";
        return Err(UnusableDatabase(why.to_owned()).into());
    }
    let history = if tables.get(0) { client.query(APPLIED.as_str(), &[]).await? } else { Vec::new() };
    if history.is_empty() && tables.get(1) {
        return Err(DifferentSchema("it has tables and no history of them".to_owned()).into());
    }
    let applied = history.iter().map(|row| Applied { version: row.get(0), name: row.get(1), checksum: row.get(2) });
    Ok(applied.collect())
}

/// Later migrations than those of this program are accepted, unless they need later programs.
fn compare(known: &[Migration], applied: &[Applied], oldest: i32) -> Result<SchemaState, SchemaRefusal> {
    let last = known.last().map_or(0, |migration| migration.version);
    if oldest > last {
        return Err(SchemaRefusal::TooNew { oldest, known: last });
    }
    let applied: Vec<Applied> = applied.iter().filter(|applied| applied.version <= last).cloned().collect();
    match missing(known, &applied) {
        Err(MigrateError::Different(different)) => Err(different.into()),
        Err(_) => Ok(SchemaState::Accepted),
        Ok(missing) => match missing.first() {
            Some(first) => Err(SchemaRefusal::TooOld { missing: missing.len(), first: first.full_name() }),
            None => Ok(SchemaState::Accepted),
        },
    }
}
