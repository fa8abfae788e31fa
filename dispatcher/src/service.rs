//! The running dispatcher: relay, deliveries, the operator's port, the drain.

use crate::deliver::{Congestion, Deliveries, Delivering};
use crate::gauges;
use crate::relay::{self, Relay};
use crate::send::{Sender, SenderError};
use crate::settings::Settings;
use common::broker::{Broker, MessageKeys, observe_queues};
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::sealed::MasterKey;
use common::{metrics, shutdown, vital};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

const DEFAULT_METRICS_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9103);
/// How often readiness is looked at, and the longest that the database may take to answer.
const LOOK: Duration = Duration::from_secs(1);
/// Connections: relay, look-ups, ledger, three for gauges, and one to look whether the database answers.
const CONNECTIONS: usize = 7;
/// Longest that relaying waits for the queues to be declared, and how often that is looked at.
const DECLARED_WITHIN: Duration = Duration::from_secs(2);
const DECLARED_LOOK: Duration = Duration::from_millis(20);
/// Time kept for closing after the drain.
const CLOSING: Duration = Duration::from_secs(1);

/// Why the dispatcher ends.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The operator's port can't be opened.
    #[error("setting CONNECT_METRICS_ADDR: can't listen: {0}")]
    Listen(std::io::Error),
    /// Signals can't be received.
    #[error("can't receive signals: {0}")]
    Signals(std::io::Error),
    /// Receivers can't be reached with these settings.
    #[error("{0}")]
    Sender(#[from] SenderError),
}

/// Runs until a signal asks for the end, then drains.
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let recorder = metrics::install();
    let health = Health::new(&["broker", "consuming", "master_key", "postgres", "publishing"]);
    let sender = Sender::new(&settings.sender)?;
    let addr = settings.service.metrics_addr.unwrap_or(DEFAULT_METRICS_ADDR);
    let bound = health::serve(addr, health.clone(), recorder).await.map_err(ServiceError::Listen)?;
    tracing::info!(what = "metrics", addr = %bound, "listening");
    if settings.sender.egress.allow_private {
        tracing::warn!(
            "CONNECT_WEBHOOK_ALLOW_PRIVATE is set: receivers may be http:// and on loopback addresses"
        );
    }
    let asked = shutdown::on_signal().map_err(ServiceError::Signals)?;

    // The broker outlives the deliveries: they still publish and acknowledge while they drain.
    let ended = CancellationToken::new();
    let levels = settings.webhooks.schedule.levels();
    let (master, prefix) = (&settings.sealing.master_key, &settings.broker.prefix);
    let keys = MessageKeys::new(master, prefix, settings.messages.accepts_unsigned);
    let (name, queues) = ("connect-dispatcher", &settings.broker);
    let broker = Broker::start_with_retries(queues, keys.clone(), name, levels, ended.clone());
    let publishing = Broker::start(queues, keys, "connect-dispatcher publishing", ended.clone());
    let database = database(&settings);
    let consuming = Arc::new(AtomicBool::new(false));
    let congestion = Congestion::default();
    let delivering = Delivering {
        broker: broker.clone(),
        publishing: publishing.clone(),
        queues: settings.broker.clone(),
        database: database.clone(),
        sender,
        master: settings.sealing.master_key.clone(),
        schedule: settings.webhooks.schedule,
        bounds: settings.webhooks.bounds,
        congestion: congestion.clone(),
        consuming: Arc::clone(&consuming),
    };
    let deliveries = Deliveries::new(delivering, asked.clone());
    let relay = Relay {
        url: settings.database.url.clone(),
        database: database.clone(),
        broker: publishing.clone(),
        congestion,
        direct: deliveries.direct(),
        rescue_after: settings.webhooks.rescue_after,
    };
    let (brokers, master_key_verified) = ([broker.clone(), publishing], CancellationToken::new());
    let relaying = {
        let (brokers, asked, verified) = (brokers.clone(), asked.clone(), master_key_verified.clone());
        vital::spawn("relay", async move {
            let until_able = async {
                verified.cancelled().await;
                until_declared(&brokers).await;
            };
            asked.run_until_cancelled(until_able).await;
            relay::run(relay, asked).await;
        })
    };
    let delivering = {
        let (asked, verified) = (asked.clone(), master_key_verified.clone());
        vital::spawn("deliveries", async move {
            // With another master key every message would be dead-lettered as forged.
            if asked.run_until_cancelled(verified.cancelled()).await.is_some() {
                deliveries.run().await;
            }
        })
    };
    drop(vital::spawn("gauges", gauges::observe(database.clone(), asked.clone())));
    tokio::spawn(observe_queues(broker.clone(), settings.broker.clone()));
    let master = settings.sealing.master_key;
    tokio::spawn(observe(brokers, database, master, (consuming, master_key_verified), health));

    asked.cancelled().await;
    let drain = async { tokio::join!(relaying, delivering) };
    if timeout(settings.service.shutdown_timeout.saturating_sub(CLOSING), drain).await.is_err() {
        // Nothing is lost: what was not acknowledged goes back to the queue.
        tracing::warn!("drain took too long; deliveries under way go back to the queue");
    }
    ended.cancel();
    Ok(())
}

/// Waits until the queues are declared, which a first attempt that fails needs; not for long, others don't need them.
async fn until_declared(brokers: &[Broker]) {
    let connected = async {
        while !brokers.iter().all(Broker::is_connected) {
            sleep(DECLARED_LOOK).await;
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

/// Keeps readiness and the pool's gauges true. Ready is a dispatcher that consumes, whose retries the broker takes, and
/// that can sign. Readiness takes no work from it: without publishing first attempts are still made.
async fn observe(
    brokers: [Broker; 2],
    database: Database,
    master: MasterKey,
    (consuming, master_key_verified): (Arc<AtomicBool>, CancellationToken),
    health: Health,
) {
    let mut every = tokio::time::interval(LOOK);
    loop {
        every.tick().await;
        health.set("broker", brokers.iter().all(Broker::is_connected));
        let [_, publishing] = &brokers;
        health.set("publishing", publishing.can_publish());
        health.set("consuming", consuming.load(Ordering::Relaxed));
        health.set("postgres", database.answers(LOOK).await);
        let has_key = database.has_master_key(&master, LOOK).await;
        health.set("master_key", has_key);
        if has_key {
            master_key_verified.cancel();
        }
        Database::observe(std::slice::from_ref(&database));
    }
}
