//! The running worker: its consumer lanes, its metrics server, and its graceful shutdown.

use crate::consume::{self, CrmHandler, EventsHandler, RecordsHandler};
use crate::pipeline::{OutboxNotifier, Pipeline};
use crate::retention::Retention;
use crate::sealed_values;
use crate::settings::Settings;
use common::broker::{
    Broker, GroupBounds, MessageKeys, Queue, QueueUse, UnitHandler, observe_queues, run_unit_consumer,
};
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::sealed::MasterKeys;
use common::{activity, critical_task, metrics, shutdown};
use futures_util::future::join_all;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const DEFAULT_METRICS_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9102);
/// How often readiness and gauges are updated; also the longest that a check of Postgres may take.
const OBSERVE_INTERVAL: Duration = Duration::from_secs(1);
/// Prefetch of a lane: enough for the next unit to have arrived when one is finished.
const PREFETCH: u16 = 32;
/// Maximum number of records writes of a unit.
const UNIT_WRITES: u16 = 16;
/// Maximum number of bytes of message bodies in a unit.
const UNIT_BYTES: usize = 8 << 20;
/// Part of the shutdown timeout that is reserved for writing the last counts after the drain.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Statement timeout of a unit. It includes waits for the locks of other units.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);

const QUEUES: QueueUse =
    QueueUse { publishes: &[], consumes: &[Queue::Events, Queue::Records, Queue::Crm], retry_levels: 0 };

/// Why the worker could not start.
#[derive(Debug, Error)]
pub enum ServiceError {
    /// The metrics server's port cannot be opened.
    #[error("{0}")]
    Listen(std::io::Error),
    /// A lane's thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Threads(io::Error),
    /// Signal handlers cannot be installed.
    #[error("cannot receive signals: {0}")]
    Signals(std::io::Error),
}

/// Runs until SIGTERM or SIGINT, then drains.
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let recorder = metrics::install();
    consume::register_event_counters();
    settings.mailboxes.apply();
    let health = Health::new(&["accepting", "broker", "consuming", "master_key", "postgres", "publishing"]);
    let addr = settings.service.metrics_addr.unwrap_or(DEFAULT_METRICS_ADDR);
    health::serve(addr, health.clone(), recorder).await.map_err(ServiceError::Listen)?;
    let shutdown = shutdown::on_signal().map_err(ServiceError::Signals)?;

    // The broker outlives the lanes: they still reply and acknowledge while they drain.
    let broker_shutdown = CancellationToken::new();
    let keys = message_keys(&settings);
    let [broker, replies] = ["connect-worker", "connect-worker replies"]
        .map(|name| Broker::start(&settings.broker, keys.clone(), name, QUEUES, broker_shutdown.clone()));
    let mut lanes = Lanes::new(&settings, [broker.clone(), replies.clone()], &shutdown);
    lanes.start_all().map_err(ServiceError::Threads)?;
    tokio::spawn(observe_queues(broker.clone(), settings.broker.clone()));
    let (retention, background) = lanes.start_background();
    let Lanes { pools, master_key_verified, consuming, running, .. } = lanes;
    tokio::spawn(activity::write_regularly(background.clone()));
    let (verified, masters) = (master_key_verified.clone(), settings.sealing.master_keys.clone());
    tokio::spawn(sealed_values::observe(pools[0].clone(), masters.clone(), verified));
    let master_key = (masters, master_key_verified);
    let lanes = LaneCount { consuming, started: running.len() };
    tokio::spawn(observe([broker, replies], pools, master_key, lanes, health.clone()));

    health.set("accepting", true);
    shutdown.cancelled().await;
    health.set("accepting", false);
    let drain = async { tokio::join!(join_all(running), retention) };
    if timeout(settings.service.shutdown_timeout.saturating_sub(FINAL_WRITE_TIMEOUT), drain).await.is_err() {
        // Nothing is lost: the broker requeues unacknowledged messages.
        tracing::warn!("drain timed out; messages of unfinished units return to their queues");
    }
    drop(timeout(FINAL_WRITE_TIMEOUT, activity::write(&background)).await);
    broker_shutdown.cancel();
    Ok(())
}

/// How many lanes were started, and how many of them consume.
struct LaneCount {
    consuming: Arc<AtomicUsize>,
    started: usize,
}

/// The lanes. Each has its own thread and its own connections, so that a records write waits neither in a pool behind a
/// burst of events, nor for a thread that applies events.
struct Lanes<'a> {
    settings: &'a Settings,
    brokers: [Broker; 2],
    shutdown: CancellationToken,
    /// What the lanes share. Each lane derives a pipeline with its own connections from it.
    pipeline: Pipeline,
    pools: Vec<Database>,
    /// Canceled once the master key has been verified against the database.
    master_key_verified: CancellationToken,
    consuming: Arc<AtomicUsize>,
    running: Vec<oneshot::Receiver<()>>,
}

impl<'a> Lanes<'a> {
    fn new(settings: &'a Settings, brokers: [Broker; 2], shutdown: &CancellationToken) -> Self {
        // For readiness checks, and for notifications of the dispatcher.
        let (database, counters) = (pool(settings, "worker", true), pool(settings, "counters", false));
        let notifier = OutboxNotifier::start(counters.clone());
        let pools = vec![database.clone(), counters.clone()];
        let pipeline = Pipeline::new(database, counters, notifier, settings.sealing.master_keys.clone());
        let (master_key_verified, consuming, running) =
            (CancellationToken::new(), Arc::default(), Vec::new());
        Self {
            settings,
            brokers,
            shutdown: shutdown.clone(),
            pipeline,
            pools,
            master_key_verified,
            consuming,
            running,
        }
    }

    fn start_all(&mut self) -> io::Result<()> {
        let (settings, shutdown) = (self.settings.worker, self.shutdown.clone());
        let weight = settings.unit_events as usize;
        let messages = usize::from(PREFETCH);
        let bounds = GroupBounds { prefetch: PREFETCH, messages, weight, bytes: UNIT_BYTES, priority: 0 };
        for _ in 0..settings.event_lanes {
            let handler = EventsHandler::new(self.pipeline("worker"), shutdown.clone());
            self.start("events lane", Queue::Events, bounds, handler)?;
        }
        let messages = usize::from(UNIT_WRITES);
        let writes = GroupBounds { prefetch: UNIT_WRITES, messages, weight: messages, ..bounds };
        for lane in 0..settings.record_lanes {
            // A second lane only helps once a full unit waits for the first one: smaller units cost more for each write.
            let writes = GroupBounds { priority: if lane == 0 { 0 } else { -1 }, ..writes };
            let handler = RecordsHandler::new(self.pipeline("records"));
            self.start("records lane", Queue::Records, writes, handler)?;
        }
        // One message at a time; it is accepted whatever its size.
        let single = GroupBounds { prefetch: 2, messages: 1, weight: 1, bytes: 1, priority: 0 };
        for _ in 0..settings.crm_lanes {
            let handler = CrmHandler::new(self.pipeline("records"), shutdown.clone());
            self.start("crm lane", Queue::Crm, single, handler)?;
        }
        Ok(())
    }

    /// A pipeline for one lane, with a connection for its units and one for its enquiry numbers.
    fn pipeline(&mut self, name: &'static str) -> Pipeline {
        let (database, counters) = (pool(self.settings, name, true), pool(self.settings, "counters", false));
        self.pools.extend([database.clone(), counters.clone()]);
        self.pipeline.with_connections(database, counters)
    }

    /// Starts retention. Returns its task, and its pool of one connection, which other background work shares. Commits of this
    /// pool do not wait for the disk: rows that reappear after a crash of the server are removed again.
    fn start_background(&mut self) -> (JoinHandle<()>, Database) {
        let settings = self.settings;
        let database = pool(settings, "retention", false);
        self.pools.push(database.clone());
        let retention = Retention::new(database.clone(), settings.retention, self.shutdown.clone());
        (critical_task::spawn("retention", retention.run()), database)
    }

    fn start<H: UnitHandler + 'static>(
        &mut self,
        name: &'static str,
        queue: Queue,
        bounds: GroupBounds,
        handler: H,
    ) -> io::Result<()> {
        let [broker, replies] = self.brokers.clone();
        let (consuming, shutdown) = (Arc::clone(&self.consuming), self.shutdown.clone());
        let master_key_verified = self.master_key_verified.clone();
        let lane = async move || {
            // With a wrong master key every message would be dead-lettered as forged.
            if shutdown.run_until_cancelled(master_key_verified.cancelled()).await.is_none() {
                return;
            }
            run_unit_consumer(&broker, &replies, queue, bounds, handler, &consuming, &shutdown).await;
        };
        self.running.push(critical_task::spawn_on_thread(name, lane)?);
        Ok(())
    }
}

/// The keys that messages are signed and verified with.
fn message_keys(settings: &Settings) -> MessageKeys {
    let (masters, prefix) = (&settings.sealing.master_keys, &settings.broker.prefix);
    let keys = MessageKeys::new(masters, prefix);
    if !settings.worker.accepts_unsigned_actions {
        return keys;
    }
    tracing::warn!(
        "CONNECT_CRM_UNSIGNED is allow: whoever can publish to the crm queue can act as an advisor of any tenant"
    );
    keys.with_unsigned_queue(Queue::Crm)
}

/// A pool of one connection. A lane keeps its connection, and tells by its age whether the server may have crashed since
/// ([`PipelinedTransaction::connected_at`](common::db::PipelinedTransaction::connected_at)): there must be no pooler between.
fn pool(settings: &Settings, name: &'static str, durable: bool) -> Database {
    let wait = Duration::from_secs(5);
    let pool = PoolSettings { name, size: 1, wait, statement_timeout: STATEMENT_TIMEOUT, durable };
    Database::new(&settings.database.direct_url, pool)
}

/// Updates readiness and the pools' gauges, and lets the lanes start once the master key is verified.
///
/// A worker is ready when all of its lanes consume and the broker accepts its replies and dead letters. An
/// unready worker keeps working: it consumes the queues even while the broker blocks publishers.
async fn observe(
    brokers: [Broker; 2],
    pools: Vec<Database>,
    (masters, master_key_verified): (MasterKeys, CancellationToken),
    lanes: LaneCount,
    health: Health,
) {
    let mut every = tokio::time::interval(OBSERVE_INTERVAL);
    loop {
        every.tick().await;
        health.set("broker", brokers.iter().all(Broker::is_connected));
        let [_, replies] = &brokers;
        health.set("publishing", replies.can_publish());
        health.set("consuming", lanes.consuming.load(Ordering::Relaxed) == lanes.started);
        health.set("postgres", pools[0].is_writable(OBSERVE_INTERVAL).await);
        let has_key = pools[0].has_master_key(&masters, OBSERVE_INTERVAL).await;
        health.set("master_key", has_key);
        if has_key {
            master_key_verified.cancel();
        }
        Database::observe(&pools);
    }
}
