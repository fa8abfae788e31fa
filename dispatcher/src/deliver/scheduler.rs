//! Takes deliveries into their lanes, starts their attempts, and hands to the ledger what has become of them.

use super::dead_letters::DeadLetters;
use super::endpoint::Endpoints;
use super::entry::{Entry, Opened};
use super::in_flight::InFlight;
use super::job::{Job, Means};
use super::lanes::{Away, Lanes};
use super::ledger::Note;
use super::open::OpenAttempts;
use super::origin::Origin;
use common::broker::Queue;
use common::clock;
use common::message::DeliveryMeta;
use common::metrics::{APPLY_DURATION, QUEUE_LAG};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use uuid::Uuid;

/// How often lanes are looked at.
const LOOK_AT_LANES: Duration = Duration::from_millis(200);

/// Schedules attempts; shared by what takes from the queue, by the relay and by attempts under way.
pub(super) struct AttemptScheduler {
    pub(super) means: Means,
    pub(super) endpoints: Endpoints,
    pub(super) lanes: Mutex<Lanes<Job>>,
    pub(super) ledger: mpsc::Sender<Note>,
    pub(super) open: OpenAttempts,
    pub(super) in_flight: InFlight,
    pub(super) dead_letters: DeadLetters,
    pub(super) attempts: TaskTracker,
}

impl AttemptScheduler {
    pub(super) fn lanes(&self) -> MutexGuard<'_, Lanes<Job>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what can be started.
    pub(super) fn start(self: &Arc<Self>) {
        let now = Instant::now();
        let started = self.lanes().start(now);
        self.run(started, now);
    }

    /// Runs attempts that lanes have started.
    pub(super) fn run(self: &Arc<Self>, started: Vec<(Uuid, Job)>, now: Instant) {
        for (id, job) in started {
            if matches!(job.origin, Origin::Outbox(_)) {
                observe_lag(&job.meta);
            }
            let scheduler = Arc::clone(self);
            let attempt = self.attempts.track_future(async move { scheduler.attempt(id, job, now).await });
            drop(common::vital::spawn("attempt", attempt));
        }
    }

    async fn attempt(self: Arc<Self>, id: Uuid, job: Job, began: Instant) {
        let (entry, answer) = self.means.attempt(job).await;
        let ended = Instant::now();
        metrics::histogram!(APPLY_DURATION, "queue" => Queue::Webhooks.as_str()).record(ended - began);
        let started = {
            let mut lanes = self.lanes();
            lanes.finish(id, began, answer, ended);
            lanes.start(ended)
        };
        self.run(started, ended);
        self.hand_in(entry).await;
    }

    pub(super) async fn hand_in(&self, entry: Entry) {
        self.note(Note::Delivery(Box::new(entry))).await;
    }

    pub(super) async fn note(&self, note: Note) {
        // The ledger outlives everything that hands in.
        drop(self.ledger.send(note).await);
    }

    /// Ends the lanes: nothing more is begun. What waits goes back to the queue, or into it, for other copies.
    pub(super) async fn drain(&self) {
        let waiting = self.lanes().close();
        for job in waiting {
            let repeats = self.open.end(&job.meta);
            for origin in repeats.into_iter().chain([job.origin]) {
                match origin {
                    Origin::Queue(receipt) => receipt.back().await,
                    Origin::Outbox(_) => {
                        let (meta, body) = (job.meta.clone(), job.body.clone());
                        self.hand_in(Entry::queued(meta, body, origin, Opened::No)).await;
                    }
                }
            }
        }
    }

    pub(super) async fn put_off(&self, Away { job, wait }: Away<Job>) {
        self.hand_in(Entry::parked(job.meta, job.body, job.origin, wait, Opened::Yes)).await;
    }

    /// Parks what lanes can't get to soon.
    pub(super) async fn keep_lanes(self: Arc<Self>, shutdown: CancellationToken) {
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

/// How long a delivery has waited that is tried for the first time.
pub(super) fn observe_lag(meta: &DeliveryMeta) {
    if meta.attempt == 1 {
        let lag = (clock::now() - meta.published_at).to_std().unwrap_or_default();
        metrics::histogram!(QUEUE_LAG, "queue" => Queue::Webhooks.as_str()).record(lag);
    }
}
