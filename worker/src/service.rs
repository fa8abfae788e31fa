//! The running worker: lanes of consumption, the operator's port, the drain.

use crate::consume::{self, CrmHandler, EventsHandler, RecordsHandler};
use crate::pipeline::{OutboxNotifier, Pipeline};
use crate::settings::Settings;
use common::broker::{Broker, Handler, LaneBounds, MessageKeys, Queue, observe_queues, run_lane};
use common::db::{Database, PoolSettings};
use common::health::{self, Health};
use common::sealed::MasterKey;
use common::{metrics, shutdown, vital};
use futures_util::future::join_all;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

const DEFAULT_METRICS_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 9102);
/// How often readiness and gauges are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// Messages that a lane is handed ahead: enough for the next unit to be there when one is done.
const PREFETCH: u16 = 32;
/// Records writes that a unit does together.
const UNIT_WRITES: u16 = 16;
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
    /// A lane's thread can't be started.
    #[error("can't start a thread: {0}")]
    Threads(io::Error),
    /// Signals can't be received.
    #[error("can't receive signals: {0}")]
    Signals(std::io::Error),
}

/// Runs until a signal asks for the end, then drains.
pub async fn run(settings: Settings) -> Result<(), ServiceError> {
    let recorder = metrics::install();
    consume::show_counters();
    let health = Health::new(&["accepting", "broker", "consuming", "master_key", "postgres", "publishing"]);
    let addr = settings.service.metrics_addr.unwrap_or(DEFAULT_METRICS_ADDR);
    let bound = health::serve(addr, health.clone(), recorder).await.map_err(ServiceError::Listen)?;
    tracing::info!(what = "metrics", addr = %bound, "listening");
    let asked = shutdown::on_signal().map_err(ServiceError::Signals)?;

    // The broker outlives the lanes: they still reply and acknowledge while they drain.
    let ended = CancellationToken::new();
    let keys = message_keys(&settings);
    let broker = Broker::start(&settings.broker, keys.clone(), "connect-worker", ended.clone());
    let replies = Broker::start(&settings.broker, keys, "connect-worker replies", ended.clone());
    let mut lanes = Lanes::new(&settings, [broker.clone(), replies.clone()], &asked);
    lanes.start_all().map_err(ServiceError::Threads)?;
    tokio::spawn(observe_queues(broker.clone(), settings.broker.clone()));
    let Lanes { pools, verified, consuming, running, .. } = lanes;
    let master_key = (settings.sealing.master_key.clone(), verified);
    tokio::spawn(observe([broker, replies], pools, master_key, (consuming, running.len()), health.clone()));

    health.set("accepting", true);
    asked.cancelled().await;
    health.set("accepting", false);
    if timeout(settings.service.shutdown_timeout.saturating_sub(CLOSING), join_all(running)).await.is_err() {
        // Nothing is lost: what was not acknowledged goes back to the queue.
        tracing::warn!("drain took too long; units under way go back to the queue");
    }
    ended.cancel();
    Ok(())
}

/// The lanes, each on a thread of its own with connections of its own: a records write waits neither behind a burst of
/// events in a pool, nor for a thread that applies them.
struct Lanes<'a> {
    settings: &'a Settings,
    brokers: [Broker; 2],
    asked: CancellationToken,
    /// For what the lanes share; the lanes' own connections come from further pools.
    pipeline: Pipeline,
    pools: Vec<Database>,
    /// Cancelled once the master key is known to be the one that the database was set up with.
    verified: CancellationToken,
    consuming: Arc<AtomicUsize>,
    running: Vec<oneshot::Receiver<()>>,
}

impl<'a> Lanes<'a> {
    fn new(settings: &'a Settings, brokers: [Broker; 2], asked: &CancellationToken) -> Self {
        // For readiness, and for notifications.
        let (database, counters) = (pool(settings, "worker", true), pool(settings, "counters", false));
        let notifier = OutboxNotifier::start(counters.clone());
        let pools = vec![database.clone(), counters.clone()];
        let pipeline = Pipeline::new(database, counters, notifier);
        let (verified, consuming, running) = (CancellationToken::new(), Arc::default(), Vec::new());
        Self { settings, brokers, asked: asked.clone(), pipeline, pools, verified, consuming, running }
    }

    fn start_all(&mut self) -> io::Result<()> {
        let (settings, asked) = (self.settings.worker, self.asked.clone());
        let weight = settings.unit_events as usize;
        let messages = usize::from(PREFETCH);
        let bounds = LaneBounds { prefetch: PREFETCH, messages, weight, bytes: UNIT_BYTES, priority: 0 };
        for _ in 0..settings.event_lanes {
            let handler = EventsHandler::new(self.pipeline("worker"), asked.clone());
            self.start("events lane", Queue::Events, bounds, handler)?;
        }
        let messages = usize::from(UNIT_WRITES);
        let writes = LaneBounds { prefetch: UNIT_WRITES, messages, weight: messages, ..bounds };
        for lane in 0..settings.record_lanes {
            // A second lane only helps once the first has a full unit waiting: smaller units cost more.
            let writes = LaneBounds { priority: if lane == 0 { 0 } else { -1 }, ..writes };
            let handler = RecordsHandler::new(self.pipeline("records"));
            self.start("records lane", Queue::Records, writes, handler)?;
        }
        let single = LaneBounds { prefetch: 2, messages: 1, weight: 1, bytes: 1, priority: 0 };
        for _ in 0..settings.crm_lanes {
            let handler = CrmHandler::new(self.pipeline("records"), asked.clone());
            self.start("crm lane", Queue::Crm, single, handler)?;
        }
        Ok(())
    }

    /// A lane's pipeline: a connection for its units and one for its enquiry numbers.
    fn pipeline(&mut self, name: &'static str) -> Pipeline {
        let (database, counters) = (pool(self.settings, name, true), pool(self.settings, "counters", false));
        self.pools.extend([database.clone(), counters.clone()]);
        self.pipeline.on(database, counters)
    }

    fn start<H: Handler + 'static>(
        &mut self,
        name: &'static str,
        queue: Queue,
        bounds: LaneBounds,
        handler: H,
    ) -> io::Result<()> {
        let [broker, replies] = self.brokers.clone();
        let (consuming, asked) = (Arc::clone(&self.consuming), self.asked.clone());
        let verified = self.verified.clone();
        let lane = async move || {
            // With another master key every message would be dead-lettered as forged.
            if asked.run_until_cancelled(verified.cancelled()).await.is_none() {
                return;
            }
            run_lane(&broker, &replies, queue, bounds, handler, &consuming, &asked).await;
        };
        self.running.push(vital::spawn_on_thread(name, lane)?);
        Ok(())
    }
}

/// What messages are signed and verified with.
fn message_keys(settings: &Settings) -> MessageKeys {
    let (master, prefix) = (&settings.sealing.master_key, &settings.broker.prefix);
    let keys = MessageKeys::new(master, prefix, settings.messages.accepts_unsigned);
    if !settings.worker.accepts_unsigned_actions {
        return keys;
    }
    tracing::warn!(
        "CONNECT_CRM_UNSIGNED is allow: whoever can publish to the crm queue can act as an advisor of any tenant"
    );
    keys.accepting_unsigned(Queue::Crm)
}

/// A pool of one connection.
fn pool(settings: &Settings, name: &'static str, durable: bool) -> Database {
    let wait = Duration::from_secs(5);
    let pool = PoolSettings { name, size: 1, wait, statement_timeout: STATEMENT_TIMEOUT, durable };
    Database::new(&settings.database.url, pool)
}

/// Keeps readiness and the pools' gauges true, and lets the lanes begin once the master key is verified. Ready is a worker
/// all of whose `lanes.1` lanes consume, and whose replies and dead letters the broker takes. Readiness takes no work from it: with a broker that blocks publishers the queues
/// are worked off all the same.
async fn observe(
    brokers: [Broker; 2],
    pools: Vec<Database>,
    (master, verified): (MasterKey, CancellationToken),
    lanes: (Arc<AtomicUsize>, usize),
    health: Health,
) {
    let mut every = tokio::time::interval(LOOK);
    loop {
        every.tick().await;
        health.set("broker", brokers.iter().all(Broker::is_connected));
        let [_, replies] = &brokers;
        health.set("publishing", replies.can_publish());
        health.set("consuming", lanes.0.load(Ordering::Relaxed) == lanes.1);
        health.set("postgres", pools[0].answers(LOOK).await);
        let has_key = pools[0].has_master_key(&master, LOOK).await;
        health.set("master_key", has_key);
        if has_key {
            verified.cancel();
        }
        Database::observe(&pools);
    }
}
