//! The running worker: lanes of consumption, the operator's port, the drain.

use crate::consume::{self, CrmHandler, EventsHandler, RecordsHandler};
use crate::pipeline::{OutboxNotifier, Pipeline};
use crate::settings::Settings;
use common::broker::{Broker, LaneBounds, Queue, observe_queues, run_lane};
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::{metrics, shutdown, vital};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

const DEFAULT_METRICS_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9102);
/// How often readiness and gauges are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Messages that a lane is handed ahead: enough for the next unit to be there when one is done.
const PREFETCH: u16 = 32;
/// Bytes of bodies that a unit takes together.
const UNIT_BYTES: usize = 8 << 20;
/// Time kept for closing after the drain.
const CLOSING: Duration = Duration::from_secs(1);
/// Longest that the database may work on one statement of a unit, waits for other units' locks included.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);

/// Why the worker ends.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The operator's port can't be opened.
    #[error("setting CONNECT_METRICS_ADDR: can't listen: {0}")]
    Listen(std::io::Error),
    /// Signals can't be received.
    #[error("can't receive signals: {0}")]
    Signals(std::io::Error),
}

/// Runs until a signal asks for the end, then drains.
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let recorder = metrics::install();
    consume::show_counters();
    let health = Health::new(&["accepting", "broker", "consuming", "postgres"]);
    let addr = settings.service.metrics_addr.unwrap_or(DEFAULT_METRICS_ADDR);
    let bound = health::serve(addr, health.clone(), recorder).await.map_err(ServiceError::Listen)?;
    tracing::info!(what = "metrics", addr = %bound, "listening");
    let asked = shutdown::on_signal().map_err(ServiceError::Signals)?;

    // The broker outlives the lanes: they still reply and acknowledge while they drain.
    let ended = CancellationToken::new();
    let broker = Broker::start(&settings.broker, "connect-worker", ended.clone());
    let replies = Broker::start(&settings.broker, "connect-worker replies", ended.clone());
    let Pipelines { events, writes, auxiliary } = pipelines(&settings);
    let consuming = Arc::new(AtomicUsize::new(0));
    let lanes = start_lanes(&settings, [&broker, &replies], &events, &writes, &consuming, &asked);
    tokio::spawn(observe_queues(broker.clone(), settings.broker.clone()));
    let databases = [events.database().clone(), writes.database().clone(), auxiliary];
    tokio::spawn(observe([broker, replies], databases, (consuming, lanes.len()), health.clone()));

    health.set("accepting", true);
    asked.cancelled().await;
    health.set("accepting", false);
    if timeout(settings.service.shutdown_timeout.saturating_sub(CLOSING), lanes.wait()).await.is_err() {
        // Nothing is lost: what was not acknowledged goes back to the queue.
        tracing::warn!("drain took too long; units under way go back to the queue");
    }
    ended.cancel();
    Ok(())
}

/// The pipelines: events, and records writes with advisor actions, have connections of their own.
struct Pipelines {
    events: Pipeline,
    writes: Pipeline,
    auxiliary: Database,
}

fn pipelines(settings: &Settings) -> Pipelines {
    let pool = |name, size, durable| {
        let wait = Duration::from_secs(5);
        let statement_timeout = STATEMENT_TIMEOUT;
        let pool = PoolSettings { name, size, wait, statement_timeout, durable };
        Database::new(&settings.database.url, pool)
    };
    let lanes = settings.worker.event_lanes as usize;
    let writers = (settings.worker.record_lanes + settings.worker.crm_lanes) as usize;
    // A connection for each lane's enquiry numbers, and one for notifications.
    let auxiliary = pool("counters", lanes + writers + 1, false);
    let notifier = OutboxNotifier::start(auxiliary.clone());
    // A connection for each lane, and one for readiness.
    let events = Pipeline::new(pool("worker", lanes + 1, true), &auxiliary, notifier);
    let writes = events.on(pool("records", writers, true));
    Pipelines { events, writes, auxiliary }
}

fn start_lanes(
    settings: &Settings,
    [broker, replies]: [&Broker; 2],
    events: &Pipeline,
    writes: &Pipeline,
    consuming: &Arc<AtomicUsize>,
    asked: &CancellationToken,
) -> TaskTracker {
    let lanes = TaskTracker::new();
    let weight = settings.worker.unit_events as usize;
    let bounds =
        LaneBounds { prefetch: PREFETCH, messages: usize::from(PREFETCH), weight, bytes: UNIT_BYTES };
    for _ in 0..settings.worker.event_lanes {
        let (broker, replies) = (broker.clone(), replies.clone());
        let (consuming, asked) = (Arc::clone(consuming), asked.clone());
        let handler = EventsHandler::new(events.clone(), asked.clone());
        let lane = async move {
            run_lane(&broker, &replies, Queue::Events, bounds, handler, &consuming, &asked).await;
        };
        lanes.spawn(vital::spawn("events lane", lane));
    }
    // A share of their own: a write doesn't wait behind a burst of events.
    let single = LaneBounds { prefetch: 2, messages: 1, weight: 1, bytes: 1 };
    for _ in 0..settings.worker.record_lanes {
        let (broker, replies) = (broker.clone(), replies.clone());
        let (consuming, asked) = (Arc::clone(consuming), asked.clone());
        let handler = RecordsHandler::new(writes.clone());
        let lane = async move {
            run_lane(&broker, &replies, Queue::Records, single, handler, &consuming, &asked).await;
        };
        lanes.spawn(vital::spawn("records lane", lane));
    }
    for _ in 0..settings.worker.crm_lanes {
        let (broker, replies) = (broker.clone(), replies.clone());
        let (consuming, asked) = (Arc::clone(consuming), asked.clone());
        let handler = CrmHandler::new(writes.clone(), asked.clone());
        let lane = async move {
            run_lane(&broker, &replies, Queue::Crm, single, handler, &consuming, &asked).await;
        };
        lanes.spawn(vital::spawn("crm lane", lane));
    }
    lanes.close();
    lanes
}

/// Keeps readiness and the pools' gauges true. Ready is a worker all of whose `lanes.1` lanes consume.
async fn observe(
    brokers: [Broker; 2],
    databases: [Database; 3],
    lanes: (Arc<AtomicUsize>, usize),
    health: Health,
) {
    let mut every = tokio::time::interval(LOOK);
    loop {
        every.tick().await;
        health.set("broker", brokers.iter().all(Broker::is_connected));
        health.set("consuming", lanes.0.load(Ordering::Relaxed) == lanes.1);
        health.set("postgres", databases[0].answers(LOOK).await);
        databases.iter().for_each(Database::observe);
    }
}
