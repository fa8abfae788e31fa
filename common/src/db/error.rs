//! What can go wrong with a transaction, by what is to be done about it.

use super::connect::ConnectError;
use deadpool_postgres::PoolError;
use thiserror::Error;
use tokio_postgres::error::SqlState;

/// Why a transaction didn't commit, or isn't known to have.
#[derive(Debug, Error)]
pub enum TxError {
    /// The database can't be reached or is going down. Wait and try again; the commit may have happened.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// Another transaction was in the way, more often than is retried.
    #[error("conflict with another transaction: {}", describe(.0))]
    Conflict(tokio_postgres::Error),
    /// What the transaction read has changed before it could lock it, more often than is retried.
    #[error("stale read: {0}")]
    Stale(&'static str),
    /// The database refuses the statement: trying again changes nothing.
    #[error("the database refused: {}", describe(.0))]
    Refused(tokio_postgres::Error),
    /// The work itself gave up; nothing was written.
    #[error("abandoned: {0}")]
    Abandoned(String),
}

/// Class of the SQLSTATEs with which functions of our schema refuse what a caller asked for, such as a write beyond the
/// quota. The transaction did what it is for.
const REFUSALS: &str = "W1";

impl TxError {
    /// The outcome of a transaction that ended so, as [`crate::metrics::TRANSACTIONS`] counts it.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Conflict(_) | Self::Stale(_) => "conflict",
            Self::Unavailable(_) => "unavailable",
            Self::Refused(error) if error.code().is_some_and(is_refusal) => "refused",
            Self::Refused(_) | Self::Abandoned(_) => "failed",
        }
    }

    /// The five characters by which the database names why it refused; `None` where the database did not answer.
    pub fn sql_state(&self) -> Option<&str> {
        match self {
            Self::Conflict(error) | Self::Refused(error) => error.code().map(SqlState::code),
            Self::Unavailable(_) | Self::Stale(_) | Self::Abandoned(_) => None,
        }
    }
}

impl From<tokio_postgres::Error> for TxError {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if is_conflict(code) => Self::Conflict(error),
            Some(code) if is_outage(code) => Self::Unavailable(describe(&error)),
            Some(_) => Self::Refused(error),
            None if is_broken(&error) => Self::Unavailable(error.to_string()),
            // Such as a parameter of the wrong type: our fault, and lasting.
            None => Self::Refused(error),
        }
    }
}

impl From<ConnectError> for TxError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Driver(error) if error.code().is_some() => Self::from(error),
            // Whatever else kept the driver from connecting, such as a name that does not resolve, may pass.
            error @ (ConnectError::TimedOut | ConnectError::Driver(_)) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

impl From<PoolError> for TxError {
    fn from(error: PoolError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Serialization failures and deadlocks; and a key that another transaction wrote first, which the next run sees.
pub(super) fn is_conflict(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::UNIQUE_VIOLATION]
        .contains(code)
}

fn is_refusal(code: &SqlState) -> bool {
    code.code().starts_with(REFUSALS)
}

/// What passes without the statement being at fault: connection exceptions (08), a server that shuts down, starts, has
/// no connection left or no disk, one that came back read-only; and a database that isn't set up yet for this program:
/// no such table, function, database or right. A statement that took too long or too much memory is not among them: a smaller
/// unit may pass where it didn't.
fn is_outage(code: &SqlState) -> bool {
    const PASSING: [SqlState; 13] = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::DISK_FULL,
        SqlState::READ_ONLY_SQL_TRANSACTION,
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INSUFFICIENT_PRIVILEGE,
        SqlState::INVALID_CATALOG_NAME,
        SqlState::INVALID_PASSWORD,
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
    ];
    code.code().starts_with("08") || PASSING.contains(code)
}

/// No code: the connection broke or never was, unless the driver itself refused a value.
fn is_broken(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    error.is_closed() || error.source().is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}

/// The database's message names constraints and columns; its detail may hold values and stays out of logs.
fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_of_our_own_functions_are_no_failures() {
        let refusals = ["W1001", "W1002"].map(SqlState::from_code);
        assert!(refusals.iter().all(is_refusal));
        let failures = [SqlState::CHECK_VIOLATION, SqlState::QUERY_CANCELED, SqlState::RAISE_EXCEPTION];
        assert!(!failures.iter().any(is_refusal));
    }
}
