//! Errors of transactions, grouped by how the caller reacts to them.

use super::connect::ConnectError;
use super::demotion;
use super::session_settings::is_mixed_up;
use super::tls::describe_with_causes;
use deadpool_postgres::{HookError, PoolError};
use thiserror::Error;
use tokio_postgres::error::SqlState;

/// Why a transaction did not commit, or why it is not known whether it did.
#[derive(Debug, Error)]
pub enum TxError {
    /// The database cannot be reached or is shutting down. Wait and retry; the commit may have happened.
    #[error("the database is unavailable: {0}")]
    Unavailable(String),
    /// A conflict with another transaction, after all retries.
    #[error("conflict with another transaction: {}", describe(.0))]
    Conflict(tokio_postgres::Error),
    /// A row that the transaction had read was changed before it could be locked, after all retries.
    #[error("stale read: {0}")]
    Stale(&'static str),
    /// Another transaction holds a lock that this one has not got in time.
    #[error("another transaction holds a lock: {}", describe(.0))]
    Locked(tokio_postgres::Error),
    /// A statement failed, and would fail again.
    #[error("a statement failed: {}", describe(.0))]
    StatementFailed(tokio_postgres::Error),
    /// The transaction's own code aborted it; nothing was written.
    #[error("abandoned: {0}")]
    Abandoned(String),
}

/// Class of the SQLSTATEs with which functions of the schema refuse a request, such as a write beyond the quota. These are
/// not failures.
const REFUSALS: &str = "W1";

impl TxError {
    /// The outcome label of a transaction with this error, as [`crate::metrics::TRANSACTIONS`] counts it.
    pub fn outcome(&self) -> &'static str {
        match self {
            Self::Conflict(_) | Self::Stale(_) => "conflict",
            Self::Locked(_) => "locked",
            Self::Unavailable(_) => "unavailable",
            Self::StatementFailed(error) if error.code().is_some_and(is_refusal) => "refused",
            Self::StatementFailed(_) | Self::Abandoned(_) => "failed",
        }
    }

    /// Whether the database cannot be reached or is shutting down.
    pub const fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }

    /// No response arrived in time.
    pub fn no_response() -> Self {
        Self::Unavailable("Postgres did not respond in time".to_owned())
    }

    /// The SQLSTATE of the database's error; `None` where the database did not respond.
    pub fn sql_state(&self) -> Option<&str> {
        match self {
            Self::Conflict(error) | Self::Locked(error) | Self::StatementFailed(error) => {
                error.code().map(SqlState::code)
            }
            Self::Unavailable(_) | Self::Stale(_) | Self::Abandoned(_) => None,
        }
    }

    /// The constraint that was violated, such as a unique key that another transaction wrote first.
    pub fn constraint(&self) -> Option<&str> {
        match self {
            Self::Conflict(error) | Self::Locked(error) | Self::StatementFailed(error) => {
                error.as_db_error()?.constraint()
            }
            Self::Unavailable(_) | Self::Stale(_) | Self::Abandoned(_) => None,
        }
    }
}

impl From<tokio_postgres::Error> for TxError {
    fn from(error: tokio_postgres::Error) -> Self {
        error.code().into_iter().for_each(demotion::observe_error);
        match error.code() {
            Some(code) if is_conflict(code) => Self::Conflict(error),
            Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => Self::Locked(error),
            Some(code) if is_outage(code) => Self::Unavailable(describe(&error)),
            Some(_) => Self::StatementFailed(error),
            None if is_broken(&error) => Self::Unavailable(describe(&error)),
            // Such as a parameter of the wrong type: a defect of the program, which a retry does not fix.
            None => Self::StatementFailed(error),
        }
    }
}

impl From<ConnectError> for TxError {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Driver { error, .. } if error.code().is_some() => Self::from(error),
            // Other errors of connecting, such as a name that does not resolve, may be temporary.
            error @ (ConnectError::TimedOut | ConnectError::Driver { .. }) => Self::Unavailable(error.to_string()),
        }
    }
}

impl From<PoolError> for TxError {
    fn from(error: PoolError) -> Self {
        match error {
            // The text of the driver's error has its causes, which the pool's `Display` leaves out.
            PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
                Self::Unavailable(describe(&error))
            }
            PoolError::PostCreateHook(HookError::Message(what)) => Self::Unavailable(what.into_owned()),
            error @ (PoolError::Timeout(_) | PoolError::Closed | PoolError::NoRuntimeSpecified) => {
                Self::Unavailable(error.to_string())
            }
        }
    }
}

/// Serialization failures, deadlocks, and unique violations: the next run sees the row that another transaction inserted.
pub(super) fn is_conflict(code: &SqlState) -> bool {
    [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::UNIQUE_VIOLATION].contains(code)
}

fn is_refusal(code: &SqlState) -> bool {
    code.code().starts_with(REFUSALS)
}

/// Temporary errors that are not caused by the statement:
/// - connection exceptions (08);
/// - a server that shuts down, starts, has no connections or disk left, or is read-only after a failover;
/// - a database that is not set up for this program yet: a table, column, function, database or privilege is missing, or the user or
///   password is not accepted;
/// - a pooler that mixes up the prepared statements of its clients.
///
/// A statement that exceeded its time or memory is not among them, because a smaller unit may succeed.
fn is_outage(code: &SqlState) -> bool {
    const TRANSIENT: [SqlState; 13] = [
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
    code.code().starts_with("08") || TRANSIENT.contains(code) || is_mixed_up(code)
}

/// Whether an error without SQLSTATE means that the connection was lost or not established. The driver also returns such
/// errors for values that it cannot convert.
fn is_broken(error: &tokio_postgres::Error) -> bool {
    use std::error::Error as _;
    error.is_closed() || error.source().is_some_and(<dyn std::error::Error>::is::<std::io::Error>)
}

/// The text for logs. The database's message names constraints and columns; its detail may contain values and is left out.
pub(super) fn describe(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) if is_mixed_up(db.code()) => format!(
            "{} ({}): a connection pooler mixes up prepared statements; it needs PgBouncer 1.21 or newer with max_prepared_statements, or pool_mode = session",
            db.message(),
            db.code().code()
        ),
        Some(db) => format!("{} ({})", db.message(), db.code().code()),
        None => describe_with_causes(error),
    }
}
