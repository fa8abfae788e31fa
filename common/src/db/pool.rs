//! A bounded pool of connections, and transactions that run again after a conflict.

use super::connect::{OneOfServers, longest};
use super::error::TxError;
use super::repeat::ConflictRetries;
use crate::metrics::{POOL_AVAILABLE, POOL_MAX, POOL_SIZE, POOL_WAITING, TRANSACTIONS};
use crate::settings::DatabaseUrl;
use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime, Timeouts, Transaction};
use std::collections::BTreeMap;
use std::time::Duration;

/// A connection from the pool.
pub type Client = deadpool_postgres::Object;

/// How a pool behaves.
#[derive(Clone, Copy, Debug)]
pub struct PoolSettings {
    /// Shown by the server, and the metrics' label.
    pub name: &'static str,
    /// Most connections.
    pub size: usize,
    /// Longest wait for a connection, free or new; for a new one the URL's `connect_timeout` comes first.
    pub wait: Duration,
    /// Longest that the server works on one statement, lock waits included.
    pub statement_timeout: Duration,
    /// Whether a commit waits for the disk. Without it, a crash of the server may lose the pool's last commits, but
    /// never one that a durable commit came after: the log is written in order.
    pub durable: bool,
}

/// What a transaction does.
pub trait Work: Sync {
    /// What it gives when it has committed.
    type Output: Send;

    /// Reads and writes through `tx`, and nothing else: it may run more than once, and what it did before is undone.
    fn run(&self, tx: &Transaction<'_>) -> impl Future<Output = Result<Self::Output, TxError>> + Send;

    /// Whether what gave `output` is to be committed; otherwise it is rolled back, and `output` is the answer.
    fn is_kept(_output: &Self::Output) -> bool {
        true
    }
}

/// A transaction that is run again when another one was in its way, [`Work`] in its general form.
pub trait Attempts: Sync {
    /// What it gives once it has committed, or has nothing to commit.
    type Output: Send;

    /// Runs the transaction on `database` and commits it. `attempt` counts from 1; what the attempt before did is
    /// undone.
    fn attempt(
        &self,
        database: &Database,
        attempt: u32,
    ) -> impl Future<Output = Result<Self::Output, TxError>> + Send;
}

/// A [`Work`] whose BEGIN and COMMIT are round trips of their own.
struct Plain<'a, W>(&'a W);

impl<W: Work> Attempts for Plain<'_, W> {
    type Output = W::Output;

    async fn attempt(&self, database: &Database, _attempt: u32) -> Result<W::Output, TxError> {
        database.run_once(self.0).await
    }
}

/// A pool; cheap to clone.
#[derive(Clone, Debug)]
pub struct Database {
    pool: Pool,
    name: &'static str,
}

impl Database {
    /// A pool for `url`. Connects when first used.
    pub fn new(url: &DatabaseUrl, settings: PoolSettings) -> Self {
        let mut config = url.config();
        // What the URL says of sessions holds where the programs don't need it otherwise.
        let options = [config.get_options().map(str::to_owned), Some(server_options(&settings))];
        config
            .application_name(settings.name)
            .options(options.into_iter().flatten().collect::<Vec<_>>().join(" "));
        let create = longest(url, settings.wait);
        let connect = OneOfServers::new(url, settings.wait);
        // Fast: broken connections are noticed by the driver; what slips through fails its first statement with
        // `TxError::Unavailable` and isn't used again. Verifying would cost a round trip for every use.
        let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let pool = Pool::builder(Manager::from_connect(config, connect, recycling))
            .max_size(settings.size)
            .timeouts(Timeouts {
                wait: Some(settings.wait),
                create: Some(create),
                recycle: Some(settings.wait),
            })
            .runtime(Runtime::Tokio1)
            .build()
            .expect("a runtime is given for the timeouts");
        Self { pool, name: settings.name }
    }

    /// A connection.
    pub async fn client(&self) -> Result<Client, TxError> {
        self.pool.get().await.map_err(TxError::from)
    }

    /// Runs `work` in a transaction and commits it.
    ///
    /// When another transaction is in the way (serialization, deadlock, a key written first), everything is rolled
    /// back and `work` runs again.
    pub async fn run_tx<W: Work>(&self, name: &'static str, work: &W) -> Result<W::Output, TxError> {
        self.run_attempts(name, &Plain(work)).await
    }

    /// Runs a transaction until no other one is in its way, at most five times.
    pub async fn run_attempts<A: Attempts>(
        &self,
        name: &'static str,
        transaction: &A,
    ) -> Result<A::Output, TxError> {
        let mut retries = ConflictRetries::new();
        loop {
            let done = transaction.attempt(self, retries.run()).await;
            let outcome = done.as_ref().map_or_else(TxError::outcome, |_| "committed");
            metrics::counter!(TRANSACTIONS, "name" => name, "outcome" => outcome).increment(1);
            let Err(error @ (TxError::Conflict(_) | TxError::Stale(_))) = done else { return done };
            tracing::debug!(name, runs = retries.run(), %error, "transaction rolled back");
            if !retries.begin_next().await {
                return Err(error);
            }
        }
    }

    async fn run_once<W: Work>(&self, work: &W) -> Result<W::Output, TxError> {
        let mut client = self.client().await?;
        let transaction = client.transaction().await?;
        // An early return drops the transaction, which rolls it back before the connection is used again.
        let value = work.run(&transaction).await?;
        if W::is_kept(&value) {
            transaction.commit().await?;
        } else {
            transaction.rollback().await?;
        }
        Ok(value)
    }

    /// Sets the gauges of pools to their current values; those of one name are counted together.
    pub fn observe(pools: &[Self]) {
        let mut by_name: BTreeMap<&'static str, [usize; 4]> = BTreeMap::new();
        for Self { pool, name } in pools {
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

    /// Whether the database answers within `within`.
    pub async fn answers(&self, within: Duration) -> bool {
        let ask = async { self.client().await?.simple_query("SELECT 1").await.map_err(TxError::from) };
        matches!(tokio::time::timeout(within, ask).await, Ok(Ok(_)))
    }
}

/// Settings of the pool's sessions, each with its why.
fn server_options(settings: &PoolSettings) -> String {
    let options = [
        ("statement_timeout", settings.statement_timeout.as_millis().to_string()),
        // A client that stalls inside a transaction must not hold its locks for ever.
        ("idle_in_transaction_session_timeout", "30000".to_owned()),
        ("synchronous_commit", if settings.durable { "on" } else { "off" }.to_owned()),
        ("timezone", "UTC".to_owned()),
    ];
    let options = options.map(|(name, value)| format!("-c {name}={value}")).join(" ");
    format!("{options} {}", planner_options())
}

/// Settings of the planner for sessions whose statements find their rows by key, as `options` of a connection.
pub fn planner_options() -> String {
    let options = [
        // It costs more than it gives on short statements.
        ("jit", "off"),
        // Every statement finds its rows by key. A plan is made once and kept, perhaps while the tables are still
        // small: it must not scan them whole when they have grown.
        ("plan_cache_mode", "force_generic_plan"),
        ("enable_seqscan", "off"),
        // It reads all rows of a key and sorts them where an index gives the newest one first.
        ("enable_bitmapscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
    ];
    options.map(|(name, value)| format!("-c {name}={value}")).join(" ")
}
