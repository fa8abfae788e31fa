//! A bounded connection pool, and transactions that are retried after a conflict.

use super::conflict_retries::ConflictRetries;
use super::connect::longest_connect;
use super::demotion;
use super::error::TxError;
use super::pool_connect::FailoverConnect;
use super::session_settings::{WrongSetting, pool_options, wrong_settings};
use crate::log_limit::LogLimit;
use crate::metrics::{POOL_AVAILABLE, POOL_MAX, POOL_SIZE, POOL_WAITING, TRANSACTIONS};
use crate::settings::DatabaseUrl;
use crate::{health, limited};
use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Pool, PoolError, RecyclingMethod, Runtime, TimeoutType, Timeouts,
    Transaction,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// How much longer than its statements may take a response is waited for. A server that is stopped keeps its connections open,
/// and ends no statement.
const RESPONSE_MARGIN: Duration = Duration::from_secs(5);
/// Statements whose responses are not seen one by one may wait for so many of them.
pub(super) const RESPONSES_OF_TRANSACTION: u32 = 2;

/// Whether a pool has looked whether the program's user is a superuser: all pools have the same user.
static HAS_CHECKED_USER: AtomicBool = AtomicBool::new(false);
/// Limits the log lines about sessions with wrong settings.
static WRONG_SETTING: LogLimit<1> = LogLimit::new();

/// A connection from the pool.
pub type Client = deadpool_postgres::Object;

/// Size, timeouts and durability of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolSettings {
    /// The `application_name` of its sessions, and the metrics' label.
    pub name: &'static str,
    /// Maximum number of connections at once.
    pub size: usize,
    /// Longest wait for a connection, idle or new; the URL's `connect_timeout` takes precedence for a new one.
    pub wait: Duration,
    /// Longest run time of one statement, lock waits included.
    pub statement_timeout: Duration,
    /// Whether a commit waits for the disk. Without it, a crash of the server may lose the pool's last commits, but
    /// never one that a durable commit came after: the log is written in order.
    pub durable: bool,
}

/// The statements of a transaction.
pub trait TransactionBody: Sync {
    /// The result of a committed transaction.
    type Output: Send;

    /// Reads and writes through `tx` only: it may run more than once, and each run before is rolled back.
    fn run(&self, tx: &Transaction<'_>) -> impl Future<Output = Result<Self::Output, TxError>> + Send;

    /// Whether to commit; otherwise the transaction is rolled back, and `output` is returned all the same.
    fn should_commit(_output: &Self::Output) -> bool {
        true
    }
}

/// A transaction that is retried after a conflict and controls its own BEGIN and COMMIT; the general form of [`TransactionBody`].
pub trait RetryableTransaction: Sync {
    /// The result once it has committed, or has nothing to commit.
    type Output: Send;

    /// Runs the transaction on `database` and commits it. `attempt` counts from 1; earlier attempts were
    /// rolled back.
    fn attempt(&self, database: &Database, attempt: u32) -> impl Future<Output = Result<Self::Output, TxError>> + Send;
}

/// Runs a [`TransactionBody`], with separate round trips for BEGIN and COMMIT.
struct SimpleTransaction<'a, W>(&'a W);

impl<W: TransactionBody> RetryableTransaction for SimpleTransaction<'_, W> {
    type Output = W::Output;

    async fn attempt(&self, database: &Database, _attempt: u32) -> Result<W::Output, TxError> {
        database.run_once(self.0).await
    }
}

/// A connection pool; cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    pool: Pool,
    name: &'static str,
    /// The longest wait for a response.
    pub(super) response_within: Duration,
}

impl Database {
    /// Creates a pool for `url`. It connects on first use.
    pub fn new(url: &DatabaseUrl, settings: PoolSettings) -> Self {
        let mut config = url.config();
        // The URL's session options come first, so that the programs' own take precedence.
        let options = [config.get_options().map(str::to_owned), Some(pool_options(&settings))];
        config.application_name(settings.name).options(options.into_iter().flatten().collect::<Vec<_>>().join(" "));
        let create = longest_connect(url, settings.wait);
        let connect = FailoverConnect::new(url, settings.wait);
        // Fast: the driver detects lost connections. One that it has not detected yet fails its first statement with
        // `TxError::Unavailable` and is discarded. Verifying would cost a round trip for every use.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let is_for_writes = url.is_for_writes();
        let reject_demoted = Hook::sync_fn(move |_client, metrics| {
            let is_outdated = is_for_writes && demotion::is_outdated(metrics.created);
            if is_outdated { Err(HookError::message("the server is read-only")) } else { Ok(()) }
        });
        let pool = Pool::builder(Manager::from_connect(config, connect, recycling))
            .max_size(settings.size)
            .pre_recycle(reject_demoted)
            .post_create(verify_settings(settings))
            .timeouts(Timeouts { wait: Some(settings.wait), create: Some(create), recycle: Some(settings.wait) })
            .runtime(Runtime::Tokio1)
            .build()
            .expect("a runtime is given for the timeouts");
        Self { pool, name: settings.name, response_within: settings.statement_timeout + RESPONSE_MARGIN }
    }

    /// Largest number of connections.
    pub fn max_size(&self) -> usize {
        self.pool.status().max_size
    }

    /// Takes a connection from the pool, waiting at most `PoolSettings::wait`.
    pub async fn client(&self) -> Result<Client, TxError> {
        let client = self.pool.get().await.map_err(TxError::from);
        health::beat();
        client
    }

    /// A connection, new or free; `None` when all of them are in use.
    pub async fn free_client(&self) -> Result<Option<Client>, TxError> {
        let timeouts = Timeouts { wait: Some(Duration::ZERO), ..self.pool.timeouts() };
        match self.pool.timeout_get(&timeouts).await {
            Ok(client) => Ok(Some(client)),
            Err(PoolError::Timeout(TimeoutType::Wait)) => Ok(None),
            Err(error) => Err(TxError::from(error)),
        }
    }

    /// Runs one statement as a transaction of its own, prepared once for each connection. A connection that does not respond in
    /// time is closed, so that no later statement waits for it; the statement may be committed nevertheless.
    pub async fn query(&self, sql: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, TxError> {
        self.query_within(self.response_within, sql, parameters).await
    }

    /// Like [`query`](Self::query), with another limit for the response.
    pub async fn query_within(
        &self, within: Duration, sql: &str, parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, TxError> {
        let (client, _work) = (self.client().await?, health::begin_work());
        let run = async { client.query(&client.prepare_cached(sql).await?, parameters).await };
        let Ok(rows) = timeout(within, run).await else {
            drop(Client::take(client));
            return Err(TxError::no_response());
        };
        Ok(rows?)
    }

    /// Runs `work` in a transaction and commits it.
    ///
    /// After a conflict with another transaction (serialization failure, deadlock, unique violation) everything is rolled
    /// back, and `work` runs again.
    pub async fn run_tx<W: TransactionBody>(&self, name: &'static str, work: &W) -> Result<W::Output, TxError> {
        self.run_attempts(name, &SimpleTransaction(work)).await
    }

    /// Runs a transaction until it does not conflict with another one, at most five times.
    pub async fn run_attempts<A: RetryableTransaction>(
        &self, name: &'static str, transaction: &A,
    ) -> Result<A::Output, TxError> {
        let mut retries = ConflictRetries::new(name);
        loop {
            let done = transaction.attempt(self, retries.run()).await;
            let outcome = done.as_ref().map_or_else(TxError::outcome, |_| "committed");
            metrics::counter!(TRANSACTIONS, "name" => name, "outcome" => outcome).increment(1);
            let Err(error) = &done else { return done };
            let is_conflict = matches!(error, TxError::Conflict(_) | TxError::Stale(_));
            let Some(wait) = retries.wait_before_next(error, is_conflict) else { return done };
            sleep(wait).await;
        }
    }

    async fn run_once<W: TransactionBody>(&self, work: &W) -> Result<W::Output, TxError> {
        let (mut client, _work) = (self.client().await?, health::begin_work());
        let run = async {
            let transaction = client.transaction().await?;
            // An early return drops the transaction, which rolls it back before the connection is used again.
            let value = work.run(&transaction).await?;
            if W::should_commit(&value) {
                transaction.commit().await?;
            } else {
                transaction.rollback().await?;
            }
            Ok(value)
        };
        let done = timeout(RESPONSES_OF_TRANSACTION * self.response_within, run).await;
        done.unwrap_or_else(|_| {
            drop(Client::take(client));
            Err(TxError::no_response())
        })
    }

    /// Sets the gauges of pools to their current values; those of one name are counted together.
    pub fn observe(pools: &[Self]) {
        let mut by_name: BTreeMap<&'static str, [usize; 4]> = BTreeMap::new();
        for Self { pool, name, .. } in pools {
            let status = pool.status();
            let sums = by_name.entry(name).or_default();
            let values = [status.max_size, status.size, status.available, status.waiting];
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
        }
        for (name, sums) in by_name {
            for (gauge, sum) in [POOL_MAX, POOL_SIZE, POOL_AVAILABLE, POOL_WAITING].into_iter().zip(sums) {
                metrics::gauge!(gauge, "pool" => name).set(u32::try_from(sum).unwrap_or(u32::MAX));
            }
        }
    }

    /// Whether the database accepts writes, and responds `within` that time after a connection was had, which may take as long. If the
    /// server is read-only, the connections that are open now are not used for writes again. One that does not respond is closed.
    pub async fn is_writable(&self, within: Duration) -> bool {
        let Ok(Ok(client)) = timeout(within, self.client()).await else { return false };
        if let Ok(asked) = timeout(within, demotion::is_read_only(&client)).await {
            return matches!(asked.map_err(TxError::from), Ok(false));
        }
        drop(Client::take(client));
        false
    }
}

/// Verifies the settings of the first connection that it is given. A program does not work with a session whose settings would lose
/// commits or change results; it logs what only makes it slow.
fn verify_settings(settings: PoolSettings) -> Hook {
    let is_verified = Arc::new(AtomicBool::new(false));
    Hook::async_fn(move |client, _metrics| {
        let is_verified = Arc::clone(&is_verified);
        Box::pin(async move {
            if is_verified.load(Ordering::Relaxed) {
                return Ok(());
            }
            let is_first = !HAS_CHECKED_USER.load(Ordering::Relaxed);
            let wrong = wrong_settings(client, &settings, is_first).await.map_err(HookError::Backend)?;
            HAS_CHECKED_USER.store(true, Ordering::Relaxed);
            if let Some(WrongSetting { is_error, text }) = wrong {
                let see = if text.starts_with("the session") { "; see docs/install.md, PgBouncer" } else { "" };
                let what = format!("{text}{see}");
                if is_error {
                    limited!(WRONG_SETTING[0], error, pool = settings.name, "{what}");
                    return Err(HookError::message(what));
                }
                tracing::warn!(pool = settings.name, "{what}");
            }
            is_verified.store(true, Ordering::Relaxed);
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::SettingValue;
    use std::net::TcpListener;

    /// Longer than a busy machine takes for what is bounded by [`WAIT`].
    const LONGEST_TEST_WAIT: Duration = Duration::from_secs(20);
    const WAIT: Duration = Duration::from_millis(200);

    fn pool(ports: &[u16]) -> Database {
        let servers: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let url = format!("postgres://connect@{}/connect", servers.join(","));
        let settings =
            PoolSettings { name: "test", size: 1, wait: WAIT, statement_timeout: LONGEST_TEST_WAIT, durable: true };
        Database::new(&DatabaseUrl::parse_setting(&url).expect("a URL"), settings)
    }

    /// A server that never responds; the system accepts its connections.
    fn unresponsive() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        (listener, port)
    }

    async fn error_of(database: &Database) -> TxError {
        let client = tokio::time::timeout(LONGEST_TEST_WAIT, database.client()).await;
        client.expect("the wait is bounded").expect_err("no server responds")
    }

    #[tokio::test]
    async fn connecting_to_unresponsive_servers_fails_within_the_wait_for_a_connection() {
        let ((_one, one), (_other, other)) = (unresponsive(), unresponsive());
        for ports in [&[one][..], &[one, other]] {
            let database = pool(ports);
            // A second attempt shows that the first one has released its place in the pool.
            for _ in 0..2 {
                let error = error_of(&database).await;
                assert!(matches!(&error, TxError::Unavailable(why) if why.contains("Timeout")), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn the_error_of_a_refusing_server_is_reported_when_another_one_is_unresponsive() {
        let ((_unresponsive, unresponsive), (closed, refusing)) = (self::unresponsive(), self::unresponsive());
        drop(closed);
        let error = error_of(&pool(&[refusing, unresponsive])).await.to_string();
        assert!(error.contains("error connecting to server"), "{error}");
    }
}
