//! From the queue to the receivers: take, look, send, put on record.
//!
//! Before each attempt the delivery and its subscription are looked at: what was paused waits in the database, what was
//! removed is dropped, what is done already is forgotten. Every message in hand is open at the broker, so that the broker's
//! prefetch bounds all of it.

mod congestion;
mod dead_letters;
mod job;
mod judge;
mod lanes;
mod ledger;
mod open;

pub use congestion::Congestion;

use crate::schedule::Schedule;
use crate::send::Sender;
use crate::store::{self, Known, Target};
use common::broker::{Broker, Intake, Queue, Receipt, Received, run_intake};
use common::clock;
use common::db::{Database, TxError};
use common::message::DeliveryMeta;
use common::metrics::{APPLY_DURATION, QUEUE_LAG};
use common::sealed::MasterKey;
use common::settings::BrokerSettings;
use dead_letters::DeadLetters;
use futures_util::try_join;
use job::{Job, Means};
use judge::{Judgement, judge};
use lanes::{Away, Bounds, Lanes};
use ledger::{Entry, Ledger, Opened};
use open::OpenAttempts;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// Messages looked at together.
const UNIT: usize = 128;
/// Wait between tries while the database can't be reached.
const OUTAGE_WAIT: Duration = Duration::from_millis(250);
/// How often lanes are looked at.
const LOOK_AT_LANES: Duration = Duration::from_millis(200);

/// How much is delivered at once.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryBounds {
    /// Attempts under way.
    pub in_all: usize,
    /// Of these, the ones to one subscription.
    pub each: usize,
    /// Messages taken from the queue and not concluded.
    pub open: u16,
}

/// What delivering needs.
#[derive(Debug)]
pub struct Delivering {
    /// Where messages are taken from.
    pub broker: Broker,
    /// Where messages of next attempts are published: a broker short of memory blocks connections that publish, and
    /// the queue must be worked off all the same.
    pub publishing: Broker,
    /// The queues' names and bounds.
    pub queues: BrokerSettings,
    /// Where everything is looked up and put on record.
    pub database: Database,
    /// Sends.
    pub sender: Sender,
    /// Opens the secrets.
    pub master: MasterKey,
    /// When to try again.
    pub schedule: Schedule,
    /// How much at once.
    pub bounds: DeliveryBounds,
    /// For the relay.
    pub congestion: Congestion,
    /// Whether messages are being taken.
    pub consuming: Arc<AtomicBool>,
}

/// Delivers until `shutdown`, then finishes the attempts under way and puts them on record.
pub async fn run(delivering: Delivering, shutdown: CancellationToken) {
    let Delivering {
        broker,
        publishing,
        queues,
        database,
        sender,
        master,
        schedule,
        bounds,
        congestion,
        consuming,
    } = delivering;
    let lane_bounds = Bounds { in_all: bounds.in_all, each: bounds.each, open: usize::from(bounds.open) };
    job::show_counters(&schedule);
    // An entry is an open message: one at most of each that the broker has handed out.
    let (ledger, entries) = mpsc::channel(usize::from(bounds.open));
    let shared = Arc::new(Shared {
        database: database.clone(),
        means: Means { sender, master, schedule },
        lanes: Mutex::new(Lanes::new(lane_bounds, congestion)),
        ledger,
        open: OpenAttempts::default(),
        dead_letters: DeadLetters::default(),
        attempts: TaskTracker::new(),
    });
    let dead_letters = shared.dead_letters.clone();
    let watch =
        dead_letters.clone().watch(broker.clone(), queues.prefix, queues.max_length, shutdown.clone());
    drop(common::vital::spawn("room for dead letters", watch));
    let ledger = Ledger { database, broker: publishing, open: shared.open.clone(), dead_letters };
    let keeper = common::vital::spawn("ledger", ledger.keep(entries));
    let evictions = common::vital::spawn("lanes", Arc::clone(&shared).keep_lanes(shutdown.clone()));
    let mut deliverer = Deliverer { shared: Arc::clone(&shared), consuming, shutdown: shutdown.clone() };
    let open = run_intake(&broker, Queue::Webhooks, (bounds.open, UNIT), &mut deliverer, &shutdown).await;

    // Nothing more is begun: what waits goes back to the queue, for other copies. What has begun is finished.
    drop(deliverer);
    let waiting = shared.lanes().clear();
    for job in waiting {
        shared.give_back(job).await;
    }
    drop(evictions.await);
    shared.attempts.close();
    shared.attempts.wait().await;
    // With the last one that hands in entries the ledger ends, once it has written them.
    drop(shared);
    drop(keeper.await);
    if let Some(open) = open {
        open.close().await;
    }
}

struct Shared {
    database: Database,
    means: Means,
    lanes: Mutex<Lanes<Job>>,
    ledger: mpsc::Sender<Entry>,
    open: OpenAttempts,
    dead_letters: DeadLetters,
    attempts: TaskTracker,
}

struct Deliverer {
    shared: Arc<Shared>,
    consuming: Arc<AtomicBool>,
    shutdown: CancellationToken,
}

impl Intake for Deliverer {
    const DEATHS: &'static [&'static str] = &["metadata", "attempts", "record"];

    async fn take(&mut self, unit: Vec<Received>) {
        let mut messages = Vec::with_capacity(unit.len());
        for Received { message, receipt } in unit {
            let meta =
                message.meta.as_deref().and_then(|meta| serde_json::from_str::<DeliveryMeta>(meta).ok());
            match meta.filter(|meta| meta.attempt > 0) {
                Some(meta) => messages.push(Taken { meta, body: message.body, receipt }),
                None => {
                    let reason = "metadata";
                    message.span().in_scope(|| {
                        tracing::error!(queue = Queue::Webhooks.as_str(), reason, "message dead-lettered");
                    });
                    receipt.dead(reason).await;
                }
            }
        }
        while !messages.is_empty() {
            match self.shared.look(&messages).await {
                Ok(looked) => return self.shared.decide(messages, &looked).await,
                Err(error) => tracing::warn!(%error, "can't look at deliveries, trying again"),
            }
            if self.shutdown.run_until_cancelled(sleep(OUTAGE_WAIT)).await.is_none() {
                for Taken { receipt, .. } in messages {
                    receipt.back().await;
                }
                return;
            }
        }
    }

    fn consuming(&mut self, is_consuming: bool) {
        self.consuming.store(is_consuming, Ordering::Relaxed);
    }
}

/// A message whose metadata was read.
struct Taken {
    meta: DeliveryMeta,
    body: Vec<u8>,
    receipt: Receipt,
}

/// What is known of a unit's deliveries and subscriptions.
struct Looked {
    deliveries: HashMap<Uuid, Known>,
    targets: HashMap<Uuid, Target>,
}

impl Shared {
    fn lanes(&self) -> MutexGuard<'_, Lanes<Job>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look(&self, messages: &[Taken]) -> Result<Looked, TxError> {
        let asked: Vec<(Uuid, Uuid)> =
            messages.iter().map(|taken| (taken.meta.tenant_id.0, taken.meta.delivery_id)).collect();
        let subscriptions: BTreeSet<Uuid> = messages.iter().map(|taken| taken.meta.subscription_id).collect();
        let subscriptions: Vec<Uuid> = subscriptions.into_iter().collect();
        let client = self.database.client().await?;
        let (deliveries, targets) =
            try_join!(store::known(&client, &asked), store::targets(&client, &subscriptions, clock::now()))?;
        Ok(Looked { deliveries, targets })
    }

    async fn decide(self: &Arc<Self>, messages: Vec<Taken>, looked: &Looked) {
        for Taken { meta, body, receipt } in messages {
            observe_lag(&meta);
            let known = looked.deliveries.get(&meta.delivery_id).copied();
            let target = looked.targets.get(&meta.subscription_id);
            match (judge(&meta, known, target), target) {
                (Judgement::Done, _) => receipt.done().await,
                (Judgement::Dead, _) => self.dead_letters.take(receipt, "attempts").await,
                (Judgement::Drop, _) => self.hand_in(Entry::dropped(meta, receipt)).await,
                (Judgement::Park, _) | (Judgement::Attempt { .. }, None) => {
                    self.hand_in(Entry::parked(meta, receipt, Duration::ZERO, Opened::No)).await;
                }
                (Judgement::Attempt { made }, Some(target)) => {
                    let Some(receipt) = self.open.begin(&meta, receipt) else { continue };
                    let job = Job { meta, body: body.into(), receipt, target: target.clone(), made };
                    let admitted = self.lanes().admit(job.meta.subscription_id, job, Instant::now());
                    if let Err(away) = admitted {
                        self.put_off(away).await;
                    }
                }
            }
        }
        self.start();
    }

    /// Starts what can be started.
    fn start(self: &Arc<Self>) {
        let now = Instant::now();
        let started = self.lanes().start(now);
        for (id, job) in started {
            let shared = Arc::clone(self);
            let attempt = self.attempts.track_future(async move { shared.attempt(id, job, now).await });
            drop(common::vital::spawn("attempt", attempt));
        }
    }

    async fn attempt(self: Arc<Self>, id: Uuid, job: Job, began: Instant) {
        let (entry, answer) = self.means.attempt(job).await;
        let ended = Instant::now();
        metrics::histogram!(APPLY_DURATION, "queue" => Queue::Webhooks.as_str()).record(ended - began);
        self.lanes().finish(id, began, answer, ended);
        self.start();
        self.hand_in(entry).await;
    }

    async fn hand_in(&self, entry: Entry) {
        // The ledger outlives everything that hands in.
        drop(self.ledger.send(entry).await);
    }

    /// Back to the queue with all messages of the attempt.
    async fn give_back(&self, job: Job) {
        let second = self.open.end(&job.meta);
        for receipt in second.into_iter().chain([job.receipt]) {
            receipt.back().await;
        }
    }

    async fn put_off(&self, Away { job, wait }: Away<Job>) {
        self.hand_in(Entry::parked(job.meta, job.receipt, wait, Opened::Yes)).await;
    }

    /// Parks what lanes can't get to soon.
    async fn keep_lanes(self: Arc<Self>, shutdown: CancellationToken) {
        let mut every = interval(LOOK_AT_LANES);
        while shutdown.run_until_cancelled(every.tick()).await.is_some() {
            let away = self.lanes().evict(Instant::now());
            for away in away {
                self.put_off(away).await;
            }
            self.start();
        }
    }
}

fn observe_lag(meta: &DeliveryMeta) {
    if meta.attempt == 1 {
        let lag = (clock::now() - meta.published_at).to_std().unwrap_or_default();
        metrics::histogram!(QUEUE_LAG, "queue" => Queue::Webhooks.as_str()).record(lag);
    }
}
