//! The running ingest: put together, run, and ended in order.

use crate::auth::{Auth, KeyCache, Keys, ReplayStore, watch_keys};
use crate::background::{self, ACCEPTING, BROKER, MASTER_KEY, POSTGRES, REPLAY_STORE};
use crate::backlog::{self, Backlog};
use crate::body::BodyReader;
use crate::counters::show_counters;
use crate::handlers::Services;
use crate::limits::Limits;
use crate::maintenance::{Partitions, maintain};
use crate::outage::Outage;
use crate::read_limit::ReadLimit;
use crate::reads::Reads;
use crate::routes::routes;
use crate::server::{ServerSettings, serve};
use crate::settings::Settings;
use crate::submit::Events;
use crate::writes::Writes;
use common::broker::{Broker, MessageKeys, Queue, Rpc, observe_queues};
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::settings::DatabaseUrl;
use common::{metrics, shutdown};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

/// The operator's port, unless `CONNECT_METRICS_ADDR` says otherwise.
const METRICS_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9101);
/// Connections for key look-ups. Those of prefixes that nobody has must not take the replay store's.
const KEY_CONNECTIONS: usize = 4;
/// Connections of the replay store: its lanes', one for the partitions, one for readiness and for what the operator is told.
const REPLAY_CONNECTIONS: usize = ReplayStore::CONNECTIONS + 2;
/// Time kept for closing the broker's connection after the drain.
const CLOSING: Duration = Duration::from_millis(500);

/// Runs until SIGTERM or SIGINT, then drains. The error says which address can't be bound.
pub async fn run(settings: Settings) -> io::Result<()> {
    let shutdown = shutdown::on_signal()?;
    let health = Health::new(&[POSTGRES, REPLAY_STORE, MASTER_KEY, BROKER, ACCEPTING]);
    let metrics_addr = settings.service.metrics_addr.unwrap_or(METRICS_ADDR);
    let recorder = metrics::install();
    show_counters();
    let bound = health::serve(metrics_addr, health.clone(), recorder).await;
    let bound = bound.map_err(|error| cannot_listen("CONNECT_METRICS_ADDR", metrics_addr, &error))?;
    tracing::info!(what = "metrics", addr = %bound, "listening");
    let addr = settings.ingest.addr;
    let listener =
        TcpListener::bind(addr).await.map_err(|error| cannot_listen("CONNECT_INGEST_ADDR", addr, &error))?;

    // Cancelled only after the drain: requests under way need the broker until then.
    let broker_closes = CancellationToken::new();
    let (master, prefix) = (&settings.ingest.master_key, &settings.broker.prefix);
    let keys = MessageKeys::new(master, prefix, settings.messages.accepts_unsigned);
    let broker = Broker::start(&settings.broker, keys, "connect-ingest", broker_closes.clone());
    tokio::spawn(observe_queues(broker.clone(), settings.broker.clone()));
    let services = start_services(&settings, &broker, &health, &broker_closes);

    tracing::info!(what = "http", addr = %listener.local_addr()?, "listening");
    health.set(ACCEPTING, true);
    tokio::spawn(unready_when_draining(shutdown.clone(), health));
    serve(listener, routes(services), server_settings(&settings), &shutdown).await;
    broker_closes.cancel();
    wait_until_closed(&broker).await;
    tracing::info!("ended");
    Ok(())
}

/// Starts what requests need, and what goes on beside them.
fn start_services(
    settings: &Settings,
    broker: &Broker,
    health: &Health,
    broker_closes: &CancellationToken,
) -> Arc<Services> {
    let ingest = &settings.ingest;
    let (url, read_url) = (&settings.database.url, &settings.database.read_url);
    let key_db = pool(url, "ingest_keys", KEY_CONNECTIONS, ingest.store_timeout);
    let replay_db = pool(url, "ingest_replay", REPLAY_CONNECTIONS, ingest.store_timeout);
    let read_db = pool(read_url, "ingest_reads", ingest.read_connections as usize, ingest.store_timeout);
    let partitions = Partitions::new(replay_db.clone());
    let cache = Arc::new(KeyCache::default());
    let replays = ReplayStore::start(replay_db.clone(), partitions.clone(), ingest.store_timeout);
    let reads = Reads::start(
        replays.flights_to(read_db.clone(), Arc::new(Outage::new("records reads"))),
        ingest.read_connections as usize,
        settings.database.read_url == settings.database.url,
    );
    let keys = Keys::new(key_db.clone(), ingest.master_key.clone(), Arc::clone(&cache));
    let rpc = |queue| Rpc::start(broker, queue, broker_closes.clone());
    let bounded = |queue| Backlog::new(queue, ingest.backlog_target);
    let (publish_within, reply_within) = (ingest.publish_timeout, ingest.reply_timeout);
    let events = Events::new(rpc(Queue::Events), bounded(Queue::Events), publish_within, reply_within);
    let writes = Writes::new(rpc(Queue::Records), bounded(Queue::Records), reply_within);

    tokio::spawn(watch_keys(settings.database.url.clone(), cache));
    tokio::spawn(maintain(partitions));
    tokio::spawn(background::return_freed_memory());
    tokio::spawn(background::observe_pools(vec![key_db, replay_db.clone(), read_db.clone()]));
    let backlogs = vec![events.backlog().clone(), writes.backlog().clone()];
    tokio::spawn(backlog::report(replay_db.clone(), backlogs));
    tokio::spawn(background::watch_readiness(
        replay_db,
        ingest.master_key.clone(),
        events.clone(),
        writes.clone(),
        health.clone(),
    ));
    Arc::new(Services {
        bodies: BodyReader::new(ingest.max_body, ingest.body_timeout, ingest.body_budget),
        limits: Limits::new(ingest.max_in_flight, ingest.max_in_flight_per_tenant),
        auth: Auth::new(keys, replays, ingest.store_timeout),
        events,
        writes,
        reads,
        read_limit: ReadLimit::default(),
    })
}

fn pool(url: &DatabaseUrl, name: &'static str, size: usize, within: Duration) -> Database {
    // A used signature need not wait for the disk. Whatever its batch changed was committed after it, and durably, so
    // that a crash of the server can only forget signatures of which nothing was applied either.
    let settled = PoolSettings { name, size, wait: within, statement_timeout: within, durable: false };
    Database::new(url, settled)
}

fn server_settings(settings: &Settings) -> ServerSettings {
    let within = settings.service.shutdown_timeout;
    ServerSettings {
        connections: settings.ingest.connections,
        trusted_proxies: settings.ingest.trusted_proxies.clone(),
        drain_within: within.saturating_sub(2 * CLOSING).max(within / 2),
    }
}

/// Load balancers must see it before the last connection is closed.
async fn unready_when_draining(shutdown: CancellationToken, health: Health) {
    shutdown.cancelled().await;
    health.set(ACCEPTING, false);
}

fn cannot_listen(setting: &str, addr: SocketAddr, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("setting {setting}: can't listen on {addr}: {error}"))
}

async fn wait_until_closed(broker: &Broker) {
    let closed = async {
        while broker.is_connected() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // It only spares the broker a warning, so it isn't worth more than this.
    drop(timeout(CLOSING, closed).await);
}
