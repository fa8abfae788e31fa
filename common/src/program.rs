//! Start and end of a service: arguments, settings, logs, the operator's port, readiness, signals, exit codes.

use crate::broker::{Broker, MessageKeys};
use crate::db::{Database, keeps_prepared_statements, until_refused, verify_schema};
use crate::health::{self, Health};
use crate::periodic::ticks;
use crate::sealed::MasterKeys;
use crate::settings::{
    BrokerSettings, DatabaseSettings, Environment, LogSettings, SealingSettings, Section, ServiceSettings,
    SettingError, TraceSettings, Variable, handle_arguments,
};
use crate::{activity, metrics, shutdown, telemetry, trace};
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The allocator of all programs, because a batch is thousands of short-lived strings.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How often readiness is checked, and the longest that the database may take to respond.
const READINESS_INTERVAL: Duration = Duration::from_secs(1);
/// How often a connection pooler that cannot serve the programs is told of, and how long it may take to respond.
const POOLER_INTERVAL: Duration = Duration::from_secs(60);
const POOLER_PATIENCE: Duration = Duration::from_secs(5);
/// Part of the shutdown timeout that is reserved for writing the last counts after the drain.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// The readiness check that is false while a service drains.
pub const ACCEPTING: &str = "accepting";

/// A service: its name, its own settings, and what it does.
pub trait Program: Section {
    /// The name of the binary.
    const NAME: &'static str;
    /// Description for `--help`.
    const ABOUT: &'static str;
    /// The port of `CONNECT_METRICS_ADDR` on the loopback address, unless that is set.
    const METRICS_PORT: u16;
    /// The names of its readiness checks, none of which is fulfilled at the start.
    const CHECKS: &'static [&'static str];
    /// The variables that it reads beside its own and those that every service reads.
    const MORE_VARIABLES: &'static [&'static [Variable]];
    /// Why it ended.
    type Error: Display;

    /// Runs until the shutdown is requested, then drains.
    fn run(self, service: Service) -> impl Future<Output = Result<(), Self::Error>>;
}

/// What every service has.
#[derive(Clone, Debug)]
pub struct Service {
    /// How Postgres is reached.
    pub database: DatabaseSettings,
    /// How RabbitMQ is reached, and the prefix of its queues.
    pub broker: BrokerSettings,
    /// The operator's master keys (D5).
    pub master_keys: MasterKeys,
    /// Longest duration of the graceful shutdown.
    pub shutdown_timeout: Duration,
    /// Its readiness, which the operator's port shows.
    pub health: Health,
    /// Canceled by SIGTERM and SIGINT.
    pub shutdown: CancellationToken,
}

/// The variables that every service reads.
const SHARED_VARIABLES: [&[Variable]; 6] = [
    DatabaseSettings::VARIABLES,
    BrokerSettings::VARIABLES,
    SealingSettings::VARIABLES,
    ServiceSettings::VARIABLES,
    LogSettings::VARIABLES,
    TraceSettings::VARIABLES,
];

/// Runs a service. An error is printed as one line on standard error, with exit code 1.
pub async fn run<P: Program>() -> ExitCode {
    let sections = SHARED_VARIABLES.iter().chain([&P::VARIABLES]).chain(P::MORE_VARIABLES);
    let variables: Vec<&Variable> = sections.copied().flatten().collect();
    let ended = match handle_arguments(P::NAME, P::ABOUT, &variables) {
        Ok(true) => return ExitCode::SUCCESS,
        Ok(false) => Box::pin(start_and_run::<P>()).await,
        Err(unknown) => Err(unknown),
    };
    telemetry::flush();
    let Err(line) = ended else { return ExitCode::SUCCESS };
    // The exit code reports the error even if standard error cannot be written.
    telemetry::print_last(&format!("{line}\n"));
    ExitCode::FAILURE
}

async fn start_and_run<P: Program>() -> Result<(), String> {
    let env = Environment::from_process();
    let read = |error: SettingError| error.to_string();
    let database = DatabaseSettings::from_env(&env).map_err(read)?;
    let broker = BrokerSettings::from_env(&env).map_err(read)?;
    let SealingSettings { master_keys } = SealingSettings::from_env(&env).map_err(read)?;
    let ServiceSettings { metrics_addr, shutdown_timeout } = ServiceSettings::from_env(&env).map_err(read)?;
    let (log, traces) = (LogSettings::from_env(&env), TraceSettings::from_env(&env));
    let (log, traces) = (log.map_err(read)?, traces.map_err(read)?);
    let program = P::from_env(&env).map_err(read)?;
    telemetry::start(&log)?;
    let exporter = trace::start(&traces, P::NAME).map_err(|error| error.to_string())?;
    let url = database.direct_url.clone();
    let schema = verify_schema(&url).await.map_err(|refusal| refusal.to_string())?;

    let shutdown = shutdown::on_signal().map_err(|error| format!("cannot receive signals: {error}"))?;
    let health = Health::new(P::CHECKS);
    let addr = metrics_addr.unwrap_or_else(|| SocketAddr::from((Ipv4Addr::LOCALHOST, P::METRICS_PORT)));
    let serving = health::serve(addr, health.clone(), metrics::install()).await;
    serving.map_err(|error| error.to_string())?;
    tokio::spawn(watch_pooler(database.clone()));
    let service = Service { database, broker, master_keys, shutdown_timeout, health, shutdown };
    let ended = tokio::select! {
        ended = Box::pin(program.run(service)) => ended.map_err(|error| error.to_string()),
        // What is under way is repeated, as after a crash.
        refusal = until_refused(&url, schema) => Err(refusal.to_string()),
    };
    if ended.is_ok() {
        tracing::info!("shutdown complete; exiting");
    }
    exporter.flush().await;
    ended
}

/// Logs an error if `DATABASE_URL` leads to a connection pooler that cannot serve the programs: of all statements that fail there
/// none says why.
async fn watch_pooler(database: DatabaseSettings) {
    if database.url == database.direct_url {
        return;
    }
    loop {
        match keeps_prepared_statements(&database.url, POOLER_PATIENCE).await {
            Ok(true) => return,
            Ok(false) => {
                tracing::error!(
                    "the connection pooler of DATABASE_URL does not keep prepared statements between transactions: statements fail; it needs PgBouncer 1.21 or newer with max_prepared_statements, or pool_mode = session"
                );
                sleep(POOLER_INTERVAL).await;
            }
            // The readiness tells that there is no connection.
            Err(_) => sleep(READINESS_INTERVAL).await,
        }
    }
}

impl Service {
    /// The keys that messages and replies are signed and verified with.
    pub fn message_keys(&self) -> MessageKeys {
        MessageKeys::new(&self.master_keys, &self.broker.prefix)
    }

    /// Fulfills [`ACCEPTING`] until the shutdown is requested. Load balancers see a drain at once, before the last connection is
    /// closed.
    pub fn start_accepting(&self) {
        self.health.set(ACCEPTING, true);
        let (health, shutdown) = (self.health.clone(), self.shutdown.clone());
        tokio::spawn(async move {
            shutdown.cancelled().await;
            health.set(ACCEPTING, false);
        });
    }

    /// Waits until the shutdown is requested and `unfinished` work has ended, for as long as the shutdown may take. Then writes the
    /// last counts to `database`.
    pub async fn drain(&self, unfinished: impl Future, database: &Database) {
        self.shutdown.cancelled().await;
        let within = self.shutdown_timeout.saturating_sub(FINAL_WRITE_TIMEOUT);
        if timeout(within, unfinished).await.is_err() {
            // Nothing is lost: the broker requeues unacknowledged messages.
            tracing::warn!("drain timed out; messages of unfinished work return to their queues");
        }
        drop(timeout(FINAL_WRITE_TIMEOUT, activity::write(database)).await);
    }

    /// Updates the readiness of a service that consumes, and the gauges of its pools, until the program ends. Cancels
    /// `master_key_verified` once the master key has been verified against the first of the pools.
    ///
    /// It is ready when it consumes, and can publish replies, retries and dead letters by the second broker. It works without being
    /// ready, too: it consumes even while the broker blocks publishers.
    pub async fn observe_consumer(
        self, brokers: [Broker; 2], pools: Vec<Database>, master_key_verified: CancellationToken,
        is_consuming: impl Fn() -> bool,
    ) {
        let [_, publishing] = &brokers;
        let mut ticks = ticks(READINESS_INTERVAL);
        loop {
            ticks.tick().await;
            let health = &self.health;
            health.set("broker", brokers.iter().all(Broker::is_connected));
            health.set("publishing", publishing.can_publish());
            health.set("consuming", is_consuming());
            let is_writable = pools[0].is_writable(READINESS_INTERVAL).await;
            health.set("postgres", is_writable);
            let has_key = pools[0].has_master_key(&self.master_keys, READINESS_INTERVAL).await;
            health.set("master_key", has_key);
            // The database's time is known then.
            if has_key && is_writable {
                master_key_verified.cancel();
            }
            Database::observe(&pools);
        }
    }
}
