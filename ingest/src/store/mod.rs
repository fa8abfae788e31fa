//! All SQL of ingest, a module for each table. Each statement names itself in its first line.

pub mod api_keys;
pub mod key_revision;
pub mod replay_entries;
pub mod replay_partitions;
pub mod schema;

use common::db::{Client, Database, TxError};
use tokio::time::{Instant, timeout_at};

/// Every statement that is prepared, for a test against the schema.
pub const STATEMENTS: &[&str] = &[
    api_keys::FIND,
    key_revision::READ,
    replay_entries::REMEMBER,
    replay_entries::STORED,
    replay_partitions::LIST,
    schema::IS_THERE,
];

/// Runs `work` on a connection of `db`, until `deadline`.
///
/// A connection whose answer is late is closed, not given back: the next one to use it would wait behind the same
/// statement.
pub async fn ask<T>(
    db: &Database,
    deadline: Instant,
    work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
) -> Result<T, TxError> {
    let late = |_| TxError::Unavailable("no answer in time".to_owned());
    let client = timeout_at(deadline, db.client()).await.map_err(late)??;
    let done = timeout_at(deadline, work(&client)).await;
    match done {
        Ok(done) => done.map_err(TxError::from),
        Err(elapsed) => {
            drop(Client::take(client));
            Err(late(elapsed))
        }
    }
}
