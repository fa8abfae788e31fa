//! All SQL of ingest, a module for each table. Each statement names itself in its first line.

pub mod api_keys;
pub mod clients;
pub mod intake_pressure;
pub mod key_revision;
pub mod leads;
pub mod records;
pub mod replay_entries;
pub mod replay_partitions;
pub mod schema;
pub mod trips;

use common::db::{Client, Database, TxError};
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

/// Every statement that is prepared, for a test against the schema.
pub const STATEMENTS: &[&str] = &[
    api_keys::FIND,
    clients::BY_IDS,
    clients::BY_EMAIL,
    clients::BY_EXTERNAL_ID,
    clients::BY_PHONE,
    intake_pressure::REMOVE_OLD,
    intake_pressure::REPORT,
    key_revision::READ,
    leads::BY_IDS,
    leads::BY_EXTERNAL_ID,
    replay_entries::REMEMBER,
    replay_entries::STORED,
    replay_entries::CHECK,
    replay_partitions::LIST,
    replay_partitions::CREATE,
    replay_partitions::DROP,
    schema::IS_THERE,
    trips::OF_LEADS,
];

/// A row that doesn't hold what the schema promises.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// A column isn't there, or has another type.
    #[error("{0}")]
    Column(#[from] tokio_postgres::Error),
    /// JSON that can't be read.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A stage that nobody knows.
    #[error("unknown stage {0:?}")]
    Stage(String),
}

/// Like [`ask`], for work that keeps its deadline itself and says whether it was late.
pub async fn ask_each<T>(
    db: &Database,
    deadline: Instant,
    work: impl AsyncFnOnce(&Client) -> (T, bool),
) -> Result<T, TxError> {
    let client = timeout_at(deadline, db.client()).await.map_err(|_| late())??;
    let (done, is_late) = work(&client).await;
    if is_late {
        drop(Client::take(client));
    }
    Ok(done)
}

/// The error of an answer that is late.
pub fn late() -> TxError {
    TxError::Unavailable("no answer in time".to_owned())
}

/// Runs `work` on a connection of `db`, until `deadline`.
///
/// A connection whose answer is late is closed, not given back: the next one to use it would wait behind the same
/// statement.
pub async fn ask<T>(
    db: &Database,
    deadline: Instant,
    work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
) -> Result<T, TxError> {
    let client = timeout_at(deadline, db.client()).await.map_err(|_| late())??;
    let done = timeout_at(deadline, work(&client)).await;
    match done {
        Ok(done) => done.map_err(TxError::from),
        Err(_) => {
            drop(Client::take(client));
            Err(late())
        }
    }
}
