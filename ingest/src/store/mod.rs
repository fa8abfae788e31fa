//! All SQL of ingest, a module for each table. Each statement has its name in its first line. `records` runs the look-ups of clients,
//! leads, trips and deliveries, whose statements are in the modules of these tables.

pub(crate) mod api_key_requests;
pub(crate) mod api_key_uses;
pub(crate) mod api_keys;
pub(crate) mod clients;
pub(crate) mod connections;
pub(crate) mod deliveries;
pub(crate) mod intake_pressure;
pub(crate) mod leads;
pub(crate) mod records;
pub(crate) mod refused_requests;
pub(crate) mod replay_entries;
pub(crate) mod replay_partitions;
pub(crate) mod replication_heartbeat;
pub(crate) mod trips;

use common::db::{Client, Database, Sql, TxError};
use common::health;
use common::outage::Outage;
use deadpool_postgres::GenericClient;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::Statement;

/// All statements, by module, for the tests that prepare and explain each one against the schema. A module that is missing here
/// has a list that nobody uses, which the compiler reports.
pub const STATEMENTS: &[&[Sql]] = &[
    api_key_requests::STATEMENTS,
    api_key_uses::STATEMENTS,
    api_keys::STATEMENTS,
    clients::STATEMENTS,
    deliveries::STATEMENTS,
    intake_pressure::STATEMENTS,
    leads::STATEMENTS,
    refused_requests::STATEMENTS,
    replay_entries::STATEMENTS,
    replay_partitions::STATEMENTS,
    replication_heartbeat::STATEMENTS,
    trips::STATEMENTS,
];

/// Prepares a statement, once for each connection.
async fn prepared(on: &impl GenericClient, sql: Sql) -> Result<Statement, tokio_postgres::Error> {
    on.prepare_cached(sql.as_str()).await
}

/// A row that does not match the schema.
#[derive(Debug, Error)]
pub(crate) enum RowError {
    /// A column is missing, or has another type.
    #[error("{0}")]
    Column(#[from] tokio_postgres::Error),
    /// A column with JSON of another form.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// A stage that this version does not know.
    #[error("unknown stage {0:?}")]
    Stage(String),
}

/// Runs `work` on a connection of `db`, until `deadline`. See [`run_until_on`].
pub(crate) async fn run_until<T>(
    db: &Database, deadline: Instant, work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
) -> Result<T, TxError> {
    run_until_on(db.client(), deadline, work).await
}

/// The outage of an operation without which requests get a 503 response.
pub(crate) fn outage_of_requests(operation: &'static str) -> Outage {
    Outage::registered(operation, "Postgres is unavailable; responding 503 to requests that need it")
}

/// The outage of an operation that a background task repeats.
pub(crate) fn outage_of_background(operation: &'static str) -> Outage {
    Outage::registered(operation, "a background task cannot use Postgres; retrying")
}

/// Runs `work` on the connection that `client` gives, until `deadline`.
pub(crate) async fn run_until_on<T>(
    client: impl Future<Output = Result<Client, TxError>>, deadline: Instant,
    work: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
) -> Result<T, TxError> {
    let done = run_with_own_deadline(client, deadline, async |client| {
        let done = timeout_at(deadline, work(client)).await;
        let is_late = done.is_err();
        (done, is_late)
    });
    done.await?.map_or_else(|_| Err(TxError::no_response()), |done| done.map_err(TxError::from))
}

/// The same for work that enforces its deadline itself, and returns whether it exceeded it.
///
/// If no response has arrived by then, the connection is closed and not returned to the pool, because its next user would
/// wait for the same statement. If the caller hangs up before, it is returned once the statement has ended.
pub(crate) async fn run_with_own_deadline<T>(
    client: impl Future<Output = Result<Client, TxError>>, deadline: Instant,
    work: impl AsyncFnOnce(&Client) -> (T, bool),
) -> Result<T, TxError> {
    let client = timeout_at(deadline, client).await.map_err(|_| TxError::no_response())??;
    let _work = health::begin_work();
    let mut busy = BusyClient { client: None, deadline };
    let (done, is_late) = work(busy.client.insert(client)).await;
    if let Some(client) = busy.client.take().filter(|_| is_late) {
        drop(Client::take(client));
    }
    Ok(done)
}

/// A connection on which statements may be running.
struct BusyClient {
    client: Option<Client>,
    deadline: Instant,
}

impl Drop for BusyClient {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let deadline = self.deadline;
        // Statements are answered in their order.
        drop(tokio::spawn(async move {
            if timeout_at(deadline, client.batch_execute("")).await.is_err() {
                drop(Client::take(client));
            }
        }));
    }
}

/// A pool of so many connections for unit tests, to a server that no test reaches.
#[cfg(test)]
pub(crate) fn unused_database(size: usize) -> Database {
    use common::db::PoolSettings;
    use common::settings::{DatabaseUrl, SettingValue};
    use std::time::Duration;

    let url = DatabaseUrl::parse_setting("postgres://localhost/unused").expect("a URL");
    let within = Duration::from_secs(1);
    let settings = PoolSettings { name: "test", size, wait: within, statement_timeout: within, durable: false };
    Database::new(&url, settings)
}
