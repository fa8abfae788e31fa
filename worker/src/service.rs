//! The running worker: its consumer lanes, and its graceful shutdown.

use crate::consume::{self, ActionIntake, ActionLane, EventsHandler, RecordsHandler, WaitingActions};
use crate::pipeline::{OutboxNotifier, Pipeline};
use crate::retention::Retention;
use crate::sealed_values;
use crate::settings::Settings;
use common::broker::{
    Broker, MessageKeys, Queue, QueueUse, StoredMessages, UnitBounds, UnitHandler, observe_queues, run_unit_consumer,
};
use common::db::{Database, PoolSettings};
use common::program::{ACCEPTING, Program, Service};
use common::settings::{MailboxSettings, RetentionSettings, Section, Variable};
use common::{activity, critical_task, health};
use futures_util::future::join_all;
use rustix::process::setpriority_process;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Prefetch of a lane: enough for the next unit to have arrived when one is finished.
const PREFETCH: u16 = 32;
/// Maximum number of events of a unit: each takes locks in the database.
pub(crate) const UNIT_EVENTS: usize = 256;
/// Maximum number of records writes of a unit.
pub(crate) const UNIT_WRITES: u16 = 16;
/// Actions that are stored at once. The only consumer of their queue gets them again in the same order if it does not acknowledge
/// them.
const STORED_ACTIONS: u16 = 256;
/// Maximum number of bytes of message bodies in a unit.
const UNIT_BYTES: usize = 8 << 20;
/// The niceness of the lanes of events. A burst that needs all processors would delay records writes, for which somebody waits.
const EVENTS_NICENESS: i32 = 5;
/// Statement timeout of a unit. It includes waits for the locks of other units.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(20);

const QUEUES: QueueUse =
    QueueUse { publishes: &[], consumes: &[Queue::Events, Queue::Records, Queue::Crm], notices: &[] };

impl Program for Settings {
    const NAME: &'static str = "connect-worker";
    const ABOUT: &'static str = "applies events, records writes and advisor actions";
    const METRICS_PORT: u16 = 9102;
    const CHECKS: &'static [&'static str] = &[ACCEPTING, "broker", "consuming", "master_key", "postgres", "publishing"];
    const MORE_VARIABLES: &'static [&'static [Variable]] = &[MailboxSettings::VARIABLES, RetentionSettings::VARIABLES];
    /// A lane's thread cannot be started.
    type Error = io::Error;

    async fn run(self, service: Service) -> io::Result<()> {
        consume::register_counters();
        self.mailboxes.apply();
        // The broker outlives the lanes: they still reply and acknowledge while they drain.
        let broker_shutdown = CancellationToken::new();
        let keys = message_keys(&self, &service);
        let brokers = ["connect-worker", "connect-worker replies"]
            .map(|name| Broker::start(&service.broker, keys.clone(), name, QUEUES, broker_shutdown.clone()));
        let mut lanes = Lanes::new(&self, &service, brokers.clone());
        let consumers = lanes.start_all()?;
        tokio::spawn(observe_queues(brokers[0].clone(), service.broker.clone()));
        let (retention, background) = lanes.start_background();
        let Lanes { pools, master_key_verified, consuming, running, .. } = lanes;
        tokio::spawn(activity::write_regularly(background.clone()));
        let (verified, masters) = (master_key_verified.clone(), service.master_keys.clone());
        tokio::spawn(sealed_values::observe(pools[0].clone(), masters, verified));
        let is_consuming = move || consuming.load(Ordering::Relaxed) == consumers;
        tokio::spawn(service.clone().observe_consumer(brokers, pools, master_key_verified, is_consuming));

        service.start_accepting();
        service.drain(async { tokio::join!(join_all(running), retention) }, &background).await;
        broker_shutdown.cancel();
        Ok(())
    }
}

/// The lanes. Each has its own thread and its own connections, so that a records write waits neither in a pool behind a
/// burst of events, nor for a thread that applies events.
struct Lanes<'a> {
    settings: &'a Settings,
    service: &'a Service,
    brokers: [Broker; 2],
    /// What the lanes share. Each lane derives a pipeline with its own connections from it.
    pipeline: Pipeline,
    pools: Vec<Database>,
    /// Canceled once the master key has been verified against the database.
    master_key_verified: CancellationToken,
    consuming: Arc<AtomicUsize>,
    running: Vec<oneshot::Receiver<()>>,
}

impl<'a> Lanes<'a> {
    fn new(settings: &'a Settings, service: &'a Service, brokers: [Broker; 2]) -> Self {
        // For readiness checks, and for notifications of the dispatcher.
        let (database, counters) = (pool(service, "worker", true), pool(service, "counters", false));
        let notifier = OutboxNotifier::start(counters.clone());
        let pools = vec![database.clone(), counters.clone()];
        let pipeline = Pipeline::new(database, counters, notifier, service.master_keys.clone());
        let (master_key_verified, consuming, running) = (CancellationToken::new(), Arc::default(), Vec::new());
        Self { settings, service, brokers, pipeline, pools, master_key_verified, consuming, running }
    }

    /// Starts all lanes. Returns how many of them consume a queue.
    fn start_all(&mut self) -> io::Result<usize> {
        let (lanes, shutdown) = (self.settings.lanes, self.service.shutdown.clone());
        let messages = usize::from(PREFETCH);
        let bounds = UnitBounds { prefetch: PREFETCH, messages, weight: UNIT_EVENTS, bytes: UNIT_BYTES, priority: 0 };
        for _ in 0..lanes {
            let handler = EventsHandler::new(self.pipeline("worker"), shutdown.clone());
            self.start("events lane", Queue::Events, bounds, handler)?;
        }
        let messages = usize::from(UNIT_WRITES);
        let writes = UnitBounds { prefetch: UNIT_WRITES, messages, weight: messages, ..bounds };
        for lane in 0..lanes {
            // A second lane only helps once about a full unit waits for the first one: smaller units cost more for each write.
            let writes = UnitBounds { priority: if lane == 0 { 0 } else { -1 }, ..writes };
            let handler = RecordsHandler::new(self.pipeline("records"));
            self.start("records lane", Queue::Records, writes, handler)?;
        }
        let (messages, waiting) = (usize::from(STORED_ACTIONS), Arc::<WaitingActions>::default());
        let stored = UnitBounds { prefetch: STORED_ACTIONS, messages, weight: messages, ..bounds };
        let (database, pipeline) = (pool(self.service, "actions", true), self.pipeline.clone());
        self.pools.push(database.clone());
        let intake = ActionIntake { pipeline, database, waiting: Arc::clone(&waiting), shutdown: shutdown.clone() };
        self.start("crm lane", Queue::Crm, stored, intake)?;
        let consumers = self.running.len();
        let (database, counters) = self.connections("actions");
        let pipeline = self.pipeline.with_connections(database.clone(), counters);
        let messages = StoredMessages::new(&self.brokers[1], Queue::Crm, "crm.dead");
        let actions = ActionLane {
            pipeline,
            database,
            messages,
            waiting,
            shutdown: shutdown.clone(),
            begun: HashSet::default(),
            passed_over: HashMap::default(),
        };
        let master_key_verified = self.master_key_verified.clone();
        let lane = async move || {
            if shutdown.run_until_cancelled(master_key_verified.cancelled()).await.is_some() {
                health::watch(Box::pin(actions.run())).await;
            }
        };
        self.running.push(critical_task::spawn_on_thread("actions lane", lane)?);
        Ok(consumers)
    }

    /// A pipeline for one lane, with a connection for its units and one for its enquiry numbers.
    fn pipeline(&mut self, name: &'static str) -> Pipeline {
        let (database, counters) = self.connections(name);
        self.pipeline.with_connections(database, counters)
    }

    fn connections(&mut self, name: &'static str) -> (Database, Database) {
        let (database, counters) = (pool(self.service, name, true), pool(self.service, "counters", false));
        self.pools.extend([database.clone(), counters.clone()]);
        (database, counters)
    }

    /// Starts retention. Returns its task, and its pool of one connection, which other background work shares. Commits of this
    /// pool do not wait for the disk: rows that reappear after a crash of the server are removed again.
    fn start_background(&mut self) -> (JoinHandle<()>, Database) {
        let (service, settings) = (self.service, self.settings);
        let database = pool(service, "retention", false);
        self.pools.push(database.clone());
        let shutdown = service.shutdown.clone();
        let retention = Retention::new(database.clone(), settings.retention, shutdown);
        (critical_task::spawn("retention", retention.run()), database)
    }

    fn start<H: UnitHandler + 'static>(
        &mut self, name: &'static str, queue: Queue, bounds: UnitBounds, handler: H,
    ) -> io::Result<()> {
        let [broker, replies] = self.brokers.clone();
        let (consuming, shutdown) = (Arc::clone(&self.consuming), self.service.shutdown.clone());
        let master_key_verified = self.master_key_verified.clone();
        let lane = async move || {
            // With a wrong master key every message would be dead-lettered as forged.
            if shutdown.run_until_cancelled(master_key_verified.cancelled()).await.is_none() {
                return;
            }
            // Of this thread, on Linux. A program that may not change it only loses the precedence of the other lanes.
            if queue == Queue::Events
                && let Err(error) = setpriority_process(None, EVENTS_NICENESS)
            {
                tracing::debug!(%error, "the priority of a lane cannot be changed");
            }
            run_unit_consumer(&broker, &replies, queue, bounds, handler, &consuming, &shutdown).await;
        };
        self.running.push(critical_task::spawn_on_thread(name, lane)?);
        Ok(())
    }
}

/// The keys that messages are signed and verified with.
fn message_keys(settings: &Settings, service: &Service) -> MessageKeys {
    let keys = service.message_keys();
    if !settings.accepts_unsigned_actions {
        return keys;
    }
    tracing::warn!(
        "CONNECT_CRM_UNSIGNED is allow: whoever can publish to the crm queue can act as an advisor of any tenant"
    );
    keys.with_unsigned_queue(Queue::Crm)
}

/// A pool of one connection. A lane keeps its connection, and tells by its age whether the server may have crashed since
/// ([`PipelinedTransaction::connected_at`](common::db::PipelinedTransaction::connected_at)): there must be no pooler between.
fn pool(service: &Service, name: &'static str, durable: bool) -> Database {
    let wait = Duration::from_secs(5);
    let pool = PoolSettings { name, size: 1, wait, statement_timeout: STATEMENT_TIMEOUT, durable };
    Database::new(&service.database.direct_url, pool)
}
