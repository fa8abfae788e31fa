//! The running dispatcher: relay, deliveries, metrics server, graceful shutdown.

use crate::conservation;
use crate::deliver::{Congestion, DeliveryDependencies, DeliveryService};
use crate::gauges;
use crate::relay::{self, Relay};
use crate::send::{Sender, SenderError};
use crate::settings::Settings;
use common::broker::{Broker, MessageKeys, Queue, QueueUse, observe_queues};
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::sealed::MasterKeys;
use common::{activity, critical_task, metrics, shutdown};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const DEFAULT_METRICS_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9103);
/// How often readiness is checked, and the longest that the database may take to respond.
const READINESS_INTERVAL: Duration = Duration::from_secs(1);
/// Pool connections: relay, replay jobs, lookups, recorder, three for gauges and the counts of the last minutes, one for
/// conservation, and one for the readiness check.
const CONNECTIONS: usize = 9;
/// The time limit for the queues to be declared before the relay starts, and how often it checks.
const DECLARED_WITHIN: Duration = Duration::from_secs(2);
const DECLARED_POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Part of the shutdown timeout that is reserved for writing the last counts after the drain.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

const QUEUES: QueueUse = QueueUse { publishes: &[], consumes: &[Queue::Webhooks], retry_levels: 0 };

/// Why the dispatcher cannot run.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The operator's port cannot be opened.
    #[error("{0}")]
    Listen(std::io::Error),
    /// Signal handlers cannot be installed.
    #[error("signal handlers cannot be installed: {0}")]
    Signals(std::io::Error),
    /// The sender cannot be created with these settings.
    #[error("{0}")]
    Sender(#[from] SenderError),
}

/// Runs until SIGTERM or SIGINT, then drains.
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let recorder = metrics::install();
    let health = Health::new(&["broker", "consuming", "master_key", "postgres", "publishing"]);
    let sender = Sender::new(&settings.sender)?;
    let addr = settings.service.metrics_addr.unwrap_or(DEFAULT_METRICS_ADDR);
    health::serve(addr, health.clone(), recorder).await.map_err(ServiceError::Listen)?;
    if settings.sender.egress.allow_private {
        tracing::warn!(
            "CONNECT_WEBHOOK_ALLOW_PRIVATE is set: receivers may be http:// and on loopback addresses"
        );
    }
    let shutdown_requested = shutdown::on_signal().map_err(ServiceError::Signals)?;

    // The broker connections outlive the deliveries, which still publish and acknowledge while they drain.
    let ended = CancellationToken::new();
    let brokers = start_brokers(&settings, &ended);
    let [broker, publishing] = brokers.clone();
    let database = database(&settings);
    let consuming = Arc::new(AtomicBool::new(false));
    let congestion = Congestion::default();
    let dependencies = DeliveryDependencies {
        broker: broker.clone(),
        publishing: publishing.clone(),
        queues: settings.broker.clone(),
        database: database.clone(),
        sender,
        masters: settings.sealing.master_keys.clone(),
        schedule: settings.webhooks.schedule,
        bounds: settings.webhooks.bounds,
        congestion: congestion.clone(),
        consuming: Arc::clone(&consuming),
    };
    let deliveries = DeliveryService::new(dependencies, shutdown_requested.clone());
    let relay = Relay {
        url: settings.database.direct_url.clone(),
        database: database.clone(),
        broker: publishing,
        broker_settings: settings.broker.clone(),
        congestion,
        direct: deliveries.direct(),
        rescue_after: settings.webhooks.rescue_after,
    };
    let verified = CancellationToken::new();
    let relay = run_relay_once_ready(relay, brokers.clone(), verified.clone(), shutdown_requested.clone());
    let relay_task = critical_task::spawn("relay", relay);
    let deliver = deliver_once_verified(deliveries, verified.clone(), shutdown_requested.clone());
    let delivery_task = critical_task::spawn("deliveries", deliver);
    drop(critical_task::spawn("gauges", gauges::observe(database.clone(), shutdown_requested.clone())));
    drop(critical_task::spawn(
        "conservation",
        conservation::observe(database.clone(), shutdown_requested.clone()),
    ));
    tokio::spawn(observe_queues(broker.clone(), settings.broker.clone()));
    tokio::spawn(activity::write_regularly(database.clone()));
    let masters = settings.sealing.master_keys;
    tokio::spawn(observe(brokers, database.clone(), masters, (consuming, verified), health));

    shutdown_requested.cancelled().await;
    let drain = async { tokio::join!(relay_task, delivery_task) };
    if timeout(settings.service.shutdown_timeout.saturating_sub(FINAL_WRITE_TIMEOUT), drain).await.is_err() {
        // Nothing is lost: the broker requeues unacknowledged messages.
        tracing::warn!("drain timed out; unfinished deliveries return to the queue");
    }
    drop(timeout(FINAL_WRITE_TIMEOUT, activity::write(&database)).await);
    ended.cancel();
    Ok(())
}

/// The connection of the consumers and the queues, and the one that publishes.
fn start_brokers(settings: &Settings, ended: &CancellationToken) -> [Broker; 2] {
    let with_retries = QueueUse { retry_levels: settings.webhooks.schedule.levels(), ..QUEUES };
    let (masters, queues) = (&settings.sealing.master_keys, &settings.broker);
    let keys = MessageKeys::new(masters, &queues.prefix);
    [
        Broker::start(queues, keys.clone(), "connect-dispatcher", with_retries, ended.clone()),
        Broker::start(queues, keys, "connect-dispatcher publishing", QUEUES, ended.clone()),
    ]
}

/// Relays the outbox once the master key is verified and the queues are declared, until shutdown.
async fn run_relay_once_ready(
    relay: Relay,
    brokers: [Broker; 2],
    verified: CancellationToken,
    shutdown: CancellationToken,
) {
    let ready = async {
        verified.cancelled().await;
        wait_until_declared(&brokers).await;
    };
    shutdown.run_until_cancelled(ready).await;
    Box::pin(relay::run(relay, shutdown)).await;
}

/// Consumes deliveries once the master key is verified: with another one every message would be dead-lettered as forged.
async fn deliver_once_verified(
    deliveries: DeliveryService,
    verified: CancellationToken,
    shutdown: CancellationToken,
) {
    if shutdown.run_until_cancelled(verified.cancelled()).await.is_some() {
        deliveries.run().await;
    }
}

/// Waits until the brokers are connected: a connection declares its queues before it counts as connected. The retry of a failed
/// first attempt needs the queues. The wait is limited, because successful attempts do not need them.
async fn wait_until_declared(brokers: &[Broker]) {
    let connected = async {
        while !brokers.iter().all(Broker::is_connected) {
            sleep(DECLARED_POLL_INTERVAL).await;
        }
    };
    drop(timeout(DECLARED_WITHIN, connected).await);
}

fn database(settings: &Settings) -> Database {
    let pool = PoolSettings {
        name: "dispatcher",
        size: CONNECTIONS,
        wait: Duration::from_secs(5),
        statement_timeout: Duration::from_secs(20),
        durable: true,
    };
    Database::new(&settings.database.url, pool)
}

/// Updates readiness and the pool's gauges. A dispatcher is ready when it consumes, can publish retries, and can sign.
/// Readiness does not stop its work: without publishing, first attempts are still made.
async fn observe(
    brokers: [Broker; 2],
    database: Database,
    masters: MasterKeys,
    (consuming, master_key_verified): (Arc<AtomicBool>, CancellationToken),
    health: Health,
) {
    let mut every = tokio::time::interval(READINESS_INTERVAL);
    loop {
        every.tick().await;
        health.set("broker", brokers.iter().all(Broker::is_connected));
        let [_, publishing] = &brokers;
        health.set("publishing", publishing.can_publish());
        health.set("consuming", consuming.load(Ordering::Relaxed));
        health.set("postgres", database.is_writable(READINESS_INTERVAL).await);
        let has_key = database.has_master_key(&masters, READINESS_INTERVAL).await;
        health.set("master_key", has_key);
        if has_key {
            master_key_verified.cancel();
        }
        Database::observe(std::slice::from_ref(&database));
    }
}
