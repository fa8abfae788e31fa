//! To the receivers: from the outbox directly or from the queue, through a lane, and on record.
//!
//! Before each attempt the subscription is looked at, and for a message its delivery, too: what was paused waits in the
//! database, what was removed is dropped, what is done already is forgotten. The number of deliveries that this program
//! holds is bounded: those from the queue by the broker's prefetch, those from the outbox by [`DirectPath`].

mod congestion;
mod dead_letters;
mod direct;
mod endpoint;
mod entry;
mod in_flight;
mod intake;
mod job;
mod judge;
mod lanes;
mod ledger;
mod messages;
mod open;
mod origin;
mod scheduler;

pub use congestion::Congestion;
pub use direct::{DirectPath, HandOff, Overflow};

use crate::schedule::Schedule;
use crate::send::Sender;
use common::broker::{Broker, Queue, run_intake};
use common::db::Database;
use common::sealed::MasterKey;
use common::settings::BrokerSettings;
use dead_letters::DeadLetters;
use endpoint::Endpoints;
use in_flight::InFlight;
use intake::DeliveryIntake;
use job::Means;
use lanes::{Bounds, Lanes};
use ledger::{Ledger, Note};
use open::OpenAttempts;
use scheduler::AttemptScheduler;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Messages looked at together.
const UNIT: usize = 128;

/// How much is delivered at once.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryBounds {
    /// Attempts under way.
    pub in_all: usize,
    /// Of these, the ones to one subscription.
    pub each: usize,
    /// Deliveries held that came from the queue: its messages that may be unacknowledged.
    pub from_queue: u16,
    /// Deliveries held that came straight from the outbox.
    pub direct: usize,
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

/// Deliveries, ready to begin.
pub struct Deliveries {
    broker: Broker,
    queues: BrokerSettings,
    prefetch: u16,
    scheduler: Arc<AttemptScheduler>,
    direct: DirectPath,
    intake: DeliveryIntake,
    ledger: Ledger,
    notes: mpsc::Receiver<Note>,
    shutdown: CancellationToken,
}

impl std::fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deliveries").field("prefetch", &self.prefetch).finish_non_exhaustive()
    }
}

impl Deliveries {
    /// Sets everything up; nothing is taken before [`run`](Self::run).
    pub fn new(delivering: Delivering, shutdown: CancellationToken) -> Self {
        let Delivering { database, publishing, bounds, schedule, .. } = delivering;
        job::show_counters(&schedule);
        let from_queue = usize::from(bounds.from_queue);
        let lane_bounds = Bounds { in_all: bounds.in_all, each: bounds.each, open: from_queue };
        let (ledger, notes) = mpsc::channel(from_queue + bounds.direct);
        let scheduler = Arc::new(AttemptScheduler {
            means: Means { sender: delivering.sender, schedule },
            endpoints: Endpoints::new(delivering.master),
            lanes: Mutex::new(Lanes::new(lane_bounds, delivering.congestion)),
            ledger,
            open: OpenAttempts::default(),
            in_flight: InFlight::default(),
            dead_letters: DeadLetters::default(),
            attempts: TaskTracker::new(),
        });
        let ledger = Ledger {
            database: database.clone(),
            broker: publishing,
            open: scheduler.open.clone(),
            in_flight: scheduler.in_flight.clone(),
            dead_letters: scheduler.dead_letters.clone(),
        };
        let intake = DeliveryIntake {
            scheduler: Arc::clone(&scheduler),
            database,
            consuming: delivering.consuming,
            shutdown: shutdown.clone(),
        };
        Self {
            broker: delivering.broker,
            queues: delivering.queues,
            prefetch: bounds.from_queue,
            direct: DirectPath::new(Arc::clone(&scheduler), bounds.direct),
            scheduler,
            intake,
            ledger,
            notes,
            shutdown,
        }
    }

    /// For the relay.
    pub fn direct(&self) -> DirectPath {
        self.direct.clone()
    }

    /// Delivers until the shutdown, then finishes the attempts under way and puts them on record. Ends after the relay,
    /// which may still hand something in.
    pub async fn run(self) {
        let Self { broker, queues, prefetch, scheduler, direct, mut intake, ledger, notes, shutdown } = self;
        let dead_letters = scheduler.dead_letters.clone();
        let watch = dead_letters.watch(broker.clone(), queues.prefix, queues.max_length, shutdown.clone());
        drop(common::vital::spawn("room for dead letters", watch));
        let keeper = common::vital::spawn("ledger", ledger.keep(notes));
        let evictions = common::vital::spawn("lanes", Arc::clone(&scheduler).keep_lanes(shutdown.clone()));
        let open = run_intake(&broker, Queue::Webhooks, (prefetch, UNIT), &mut intake, &shutdown).await;

        drop((intake, direct));
        scheduler.drain().await;
        drop(evictions.await);
        scheduler.attempts.close();
        scheduler.attempts.wait().await;
        // With the last one that hands in notes the ledger ends, once it has written them.
        drop(scheduler);
        drop(keeper.await);
        if let Some(open) = open {
            open.close().await;
        }
    }
}
