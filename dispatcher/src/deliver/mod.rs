//! Delivers webhooks: from the outbox or the queue through a lane to the receiver, and records the outcome.
//!
//! Before each attempt the subscription is checked, and for a message its delivery as well: deliveries of a paused subscription
//! are parked, those of a removed one are dropped, and those already recorded are acknowledged. The number of deliveries held
//! is bounded: those from the queue by the prefetch, those from the outbox by [`DirectPath`].

mod attempt_job;
mod congestion;
mod consumer;
mod dead_letter_queue;
mod delivery_publisher;
mod delivery_update;
mod direct;
mod endpoint;
mod in_flight;
mod lanes;
mod message_decision;
mod recorder;
mod scheduler;
mod source;
mod unrecorded_attempts;

pub(crate) use congestion::Congestion;
pub(crate) use direct::{DirectPath, HandOff, Overflow};

use crate::schedule::Schedule;
use crate::send::Sender;
use attempt_job::AttemptRunner;
use common::broker::{Broker, Queue, run_message_consumer};
use common::db::Database;
use common::outage::Outage;
use common::sealed::MasterKeys;
use common::settings::BrokerSettings;
use consumer::DeliveryConsumer;
use dead_letter_queue::DeadLetterQueue;
use endpoint::Endpoints;
use in_flight::InFlight;
use lanes::{LaneBounds, SubscriptionLanes};
use recorder::{DeliveryRecorder, RecorderItem};
use scheduler::AttemptScheduler;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unrecorded_attempts::UnrecordedAttempts;

/// Maximum number of messages whose deliveries are looked up together.
const LOOKUP_MAX: usize = 128;

/// Limits of concurrent attempts and of deliveries held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeliveryBounds {
    /// Concurrent attempts of all subscriptions.
    pub in_all: usize,
    /// Concurrent attempts to one subscription.
    pub each: usize,
    /// Deliveries held from the queue: the prefetch.
    pub from_queue: u16,
    /// Deliveries held directly from the outbox.
    pub direct: usize,
}

/// Dependencies and settings of the delivery service.
#[derive(Debug)]
pub(crate) struct DeliveryDependencies {
    /// The connection that consumes the webhooks queue.
    pub broker: Broker,
    /// The connection that publishes: a broker short of memory or disk blocks publishing connections, and consuming must
    /// continue.
    pub publishing: Broker,
    /// The queues' names and bounds.
    pub queues: BrokerSettings,
    pub database: Database,
    pub sender: Sender,
    /// Decrypts the subscriptions' secrets and URLs.
    pub masters: MasterKeys,
    pub schedule: Schedule,
    pub bounds: DeliveryBounds,
    /// Shared with the relay.
    pub congestion: Congestion,
    /// Set while the webhooks queue is consumed.
    pub consuming: Arc<AtomicBool>,
}

/// The delivery service, before [`run`](Self::run) starts it.
pub(crate) struct DeliveryService {
    broker: Broker,
    queues: BrokerSettings,
    prefetch: u16,
    scheduler: Arc<AttemptScheduler>,
    direct: DirectPath,
    consumer: DeliveryConsumer,
    recorder: DeliveryRecorder,
    items: mpsc::Receiver<RecorderItem>,
    shutdown: CancellationToken,
}

impl std::fmt::Debug for DeliveryService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeliveryService").field("prefetch", &self.prefetch).finish_non_exhaustive()
    }
}

impl DeliveryService {
    /// Sets the service up; nothing is consumed before [`run`](Self::run).
    pub(crate) fn new(dependencies: DeliveryDependencies, shutdown: CancellationToken) -> Self {
        let DeliveryDependencies { database, publishing, bounds, schedule, .. } = dependencies;
        attempt_job::register_counters(&schedule);
        [&recorder::OUTAGE, &consumer::OUTAGE].into_iter().for_each(Outage::register);
        let from_queue = usize::from(bounds.from_queue);
        let lanes = LaneBounds { in_all: bounds.in_all, each: bounds.each, unacknowledged: from_queue };
        let (recorder_items, items) = mpsc::channel(from_queue + bounds.direct);
        let scheduler = Arc::new(AttemptScheduler {
            runner: AttemptRunner { sender: dependencies.sender, schedule },
            endpoints: Endpoints::new(dependencies.masters),
            lanes: Mutex::new(SubscriptionLanes::new(lanes, dependencies.congestion)),
            recorder_items,
            unrecorded: UnrecordedAttempts::default(),
            in_flight: InFlight::default(),
            dead_letter_queue: DeadLetterQueue::default(),
            attempts: TaskTracker::new(),
        });
        let recorder = DeliveryRecorder {
            database: database.clone(),
            broker: publishing,
            unrecorded: scheduler.unrecorded.clone(),
            in_flight: scheduler.in_flight.clone(),
            dead_letter_queue: scheduler.dead_letter_queue.clone(),
        };
        let consumer = DeliveryConsumer {
            scheduler: Arc::clone(&scheduler),
            database,
            consuming: dependencies.consuming,
            shutdown: shutdown.clone(),
        };
        Self {
            broker: dependencies.broker,
            queues: dependencies.queues,
            prefetch: bounds.from_queue,
            direct: DirectPath::new(Arc::clone(&scheduler), bounds.direct),
            scheduler,
            consumer,
            recorder,
            items,
            shutdown,
        }
    }

    /// The path through which the relay hands off events.
    pub(crate) fn direct(&self) -> DirectPath {
        self.direct.clone()
    }

    /// Delivers until shutdown, then finishes and records the running attempts. Ends after the relay, which may still hand off
    /// events.
    pub(crate) async fn run(self) {
        let Self { broker, queues, prefetch, scheduler, direct, mut consumer, recorder, items, shutdown } =
            self;
        let dead_letter_queue = scheduler.dead_letter_queue.clone();
        let watch =
            dead_letter_queue.watch(broker.clone(), queues.prefix, queues.max_length, shutdown.clone());
        drop(common::critical_task::spawn("dead-letter queue length", watch));
        let recorder_task = common::critical_task::spawn("recorder", recorder.run(items));
        let evictions =
            common::critical_task::spawn("lanes", Arc::clone(&scheduler).run_evictions(shutdown.clone()));
        let open_consumer =
            run_message_consumer(&broker, Queue::Webhooks, prefetch, LOOKUP_MAX, &mut consumer, &shutdown)
                .await;

        drop((consumer, direct));
        scheduler.drain().await;
        drop(evictions.await);
        scheduler.attempts.close();
        scheduler.attempts.wait().await;
        // Dropping the last sender ends the recorder after it has written everything.
        drop(scheduler);
        drop(recorder_task.await);
        if let Some(open_consumer) = open_consumer {
            open_consumer.close().await;
        }
    }
}
