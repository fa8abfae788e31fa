//! Executes replay jobs: the holder of a tenant's slot replays its deliveries in batches, in the order of their ids and at the
//! rate of the job. The next holder continues with what is stored.

use crate::dispatch::{Event, OpenSlots, slot_of};
use crate::store::{self, ReplayBatch};
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::retry::RetryWaits;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// Limits the log lines about failures.
static FAILED: LogLimit<1> = LogLimit::new();

/// How often new jobs are looked for, and the time between two batches of a job.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const BATCH_INTERVAL: Duration = Duration::from_millis(200);
const RETRY_WAITS: RetryWaits = RetryWaits::doubling(Duration::from_millis(250), Duration::from_secs(15));

/// Executes jobs.
pub(crate) struct ReplayJobs {
    pub database: Database,
    /// The slots of the tenants whose jobs are executed here.
    pub open: watch::Receiver<OpenSlots>,
    pub events: UnboundedSender<Event>,
}

impl ReplayJobs {
    /// Executes jobs until `shutdown`. Failures are retried.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut waits = RETRY_WAITS;
        while !shutdown.is_cancelled() {
            let pause = match self.step().await {
                Ok(pause) => {
                    waits.reset();
                    pause
                }
                Err(error) => {
                    let wait = waits.next_wait();
                    limited!(FAILED[0], warn, %error, ?wait, "executing replay jobs failed; retrying");
                    wait
                }
            };
            shutdown.run_until_cancelled(sleep(pause)).await;
        }
    }

    /// Executes a batch of each open job. Returns the pause before the next step.
    async fn step(&self) -> Result<Duration, TxError> {
        let mut jobs = store::load_open_jobs(&self.database).await?;
        jobs.retain(|job| self.open.borrow().leases.iter().any(|lease| lease.slot == slot_of(job.tenant_id)));
        let mut pause = if jobs.is_empty() { POLL_INTERVAL } else { BATCH_INTERVAL };
        for job in jobs {
            if job.is_stopping {
                store::stop_job(&self.database, job).await?;
                tracing::info!(job = %job.id, "replay job stopped");
                continue;
            }
            match store::replay_batch(&self.database, job).await? {
                ReplayBatch::Replayed => {
                    drop(self.events.send(Event::Woken { outbox: 0, deliveries: true }));
                }
                ReplayBatch::NoneSelected => pause = Duration::ZERO,
                ReplayBatch::Completed => tracing::info!(job = %job.id, "replay job completed"),
                ReplayBatch::Waits => {}
            }
        }
        Ok(pause)
    }
}
