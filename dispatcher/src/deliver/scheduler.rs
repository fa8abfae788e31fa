//! Admits deliveries to their lanes, starts attempts, and passes the outcomes to the recorder.

use super::attempt_job::{AttemptJob, AttemptRunner};
use super::dead_letter_queue::DeadLetterQueue;
use super::delivery_update::{DeliveryUpdate, Tracked};
use super::endpoint::Endpoints;
use super::in_flight::InFlight;
use super::lanes::{JobToPark, SubscriptionLanes};
use super::recorder::RecorderItem;
use super::source::DeliverySource;
use super::unrecorded_attempts::UnrecordedAttempts;
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

/// How often lanes are checked for jobs to evict.
const EVICTION_INTERVAL: Duration = Duration::from_millis(200);

/// Schedules attempts; shared by the consumer, the relay and running attempts.
pub(super) struct AttemptScheduler {
    pub(super) runner: AttemptRunner,
    pub(super) endpoints: Endpoints,
    pub(super) lanes: Mutex<SubscriptionLanes<AttemptJob>>,
    pub(super) recorder_items: mpsc::Sender<RecorderItem>,
    pub(super) unrecorded: UnrecordedAttempts,
    pub(super) in_flight: InFlight,
    pub(super) dead_letter_queue: DeadLetterQueue,
    pub(super) attempts: TaskTracker,
}

impl AttemptScheduler {
    pub(super) fn lanes(&self) -> MutexGuard<'_, SubscriptionLanes<AttemptJob>> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts all jobs that lanes can start now.
    pub(super) fn start(self: &Arc<Self>) {
        let now = Instant::now();
        let started = self.lanes().start(now);
        self.run(started, now);
    }

    /// Runs attempts that lanes have started.
    pub(super) fn run(self: &Arc<Self>, started: Vec<(Uuid, AttemptJob)>, now: Instant) {
        for (id, job) in started {
            if matches!(job.source, DeliverySource::Outbox(_)) {
                observe_lag(&job.meta);
            }
            let scheduler = Arc::clone(self);
            let attempt = self.attempts.track_future(async move { scheduler.attempt(id, job, now).await });
            drop(common::critical_task::spawn("attempt", attempt));
        }
    }

    async fn attempt(self: Arc<Self>, id: Uuid, job: AttemptJob, began: Instant) {
        let (update, responsiveness) = self.runner.attempt(job).await;
        let ended = Instant::now();
        metrics::histogram!(APPLY_DURATION, "queue" => Queue::Webhooks.as_str()).record(ended - began);
        let started = {
            let mut lanes = self.lanes();
            lanes.finish(id, began, responsiveness, ended);
            lanes.start(ended)
        };
        self.run(started, ended);
        self.submit(update).await;
    }

    pub(super) async fn submit(&self, update: DeliveryUpdate) {
        self.record(RecorderItem::Delivery(Box::new(update))).await;
    }

    pub(super) async fn record(&self, item: RecorderItem) {
        // Sending cannot fail: the recorder outlives all senders.
        drop(self.recorder_items.send(item).await);
    }

    /// Closes the lanes: no further attempt is started. Waiting deliveries are requeued or published, for other copies.
    pub(super) async fn drain(&self) {
        let waiting = self.lanes().close();
        for job in waiting {
            let duplicates = self.unrecorded.end(&job.meta);
            for source in duplicates.into_iter().chain([job.source]) {
                match source {
                    DeliverySource::Queue(ack) => ack.requeue().await,
                    DeliverySource::Outbox(_) => {
                        let (meta, body) = (job.meta.clone(), job.body.clone());
                        self.submit(DeliveryUpdate::queued(meta, body, source, Tracked::No)).await;
                    }
                }
            }
        }
    }

    pub(super) async fn park_job(&self, JobToPark { job, wait }: JobToPark<AttemptJob>) {
        self.submit(DeliveryUpdate::parked(job.meta, job.body, job.source, wait, Tracked::Yes)).await;
    }

    /// Parks deliveries that lanes cannot attempt soon, until `shutdown`.
    pub(super) async fn run_evictions(self: Arc<Self>, shutdown: CancellationToken) {
        let mut every = interval(EVICTION_INTERVAL);
        while shutdown.run_until_cancelled(every.tick()).await.is_some() {
            let to_park = self.lanes().evict(Instant::now());
            for to_park in to_park {
                self.park_job(to_park).await;
            }
            self.start();
        }
    }
}

/// Records the lag of a delivery's first attempt.
pub(super) fn observe_lag(meta: &DeliveryMeta) {
    if meta.attempt == 1 {
        let lag = (clock::now() - meta.published_at).to_std().unwrap_or_default();
        metrics::histogram!(QUEUE_LAG, "queue" => Queue::Webhooks.as_str()).record(lag);
    }
}
