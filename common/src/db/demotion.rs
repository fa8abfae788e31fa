//! Servers that have become read-only: after a failover the old primary may keep running, and responds to reads.
//!
//! Connections that were opened before a server was found to be read-only are not used again. New ones are opened to a server
//! that accepts writes, if the URL names several (see [`DatabaseUrl::for_writes`](crate::settings::DatabaseUrl::for_writes)).

use crate::log_limit::LogLimit;
use crate::{clock, limited};
use parking_lot::Mutex;
use std::time::Instant;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

/// When a server was last found to be read-only. One value for the process: every pool for writes has the same servers.
static LAST_FOUND: Mutex<Option<Instant>> = Mutex::new(None);

static FOUND: LogLimit<1> = LogLimit::new();

/// A server that replays the log of another one, or was made read-only, refuses writes.
const IS_READ_ONLY: &str = "-- session.is_read_only
    SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::bool,
           to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";

/// Records an error that only a read-only server returns.
pub(super) fn observe_error(code: &SqlState) {
    if *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        record();
    }
}

/// Whether the server of `client` is read-only, which is then recorded, as is the time of its clock.
pub async fn is_read_only(client: &Client) -> Result<bool, Error> {
    let rows = client.simple_query(IS_READ_ONLY).await?;
    let row = rows.iter().find_map(|message| if let SimpleQueryMessage::Row(row) = message { Some(row) } else { None });
    if let Some(at) = row.and_then(|row| row.get(1)?.parse().ok()) {
        clock::note_database_time(at);
    }
    let is_read_only = row.is_some_and(|row| row.get(0) == Some("t"));
    if is_read_only {
        record();
    }
    Ok(is_read_only)
}

/// Whether a connection that was opened at `opened` must not be used for writes any more.
pub(super) fn is_outdated(opened: Instant) -> bool {
    LAST_FOUND.lock().is_some_and(|found| opened <= found)
}

fn record() {
    *LAST_FOUND.lock() = Some(Instant::now());
    limited!(FOUND[0], warn, "Postgres is read-only: a standby, or demoted; opening new connections");
}
