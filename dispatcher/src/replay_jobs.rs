//! Executes replay jobs: the holder of a tenant's slot replays its deliveries in batches, in the order of their ids and at the
//! rate of the job. The next holder continues with what is stored.

use crate::dispatch::Event;
use crate::slots::Leases;
use crate::store;
use common::db::{Database, TxError};
use common::limited;
use common::log_limit::LogLimit;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Limits the log lines about failures.
static FAILED: LogLimit<2> = LogLimit::new();

/// How often new jobs are looked for, and the time between two batches of a job.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const BATCH_INTERVAL: Duration = Duration::from_millis(200);

/// Executes jobs.
pub(crate) struct ReplayJobs {
    pub database: Database,
    /// The slots of the tenants whose jobs are executed here.
    pub open: watch::Receiver<Leases>,
    pub events: UnboundedSender<Event>,
}

impl ReplayJobs {
    /// Executes jobs until `shutdown`. Failures are retried.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut last = Uuid::nil();
        while !shutdown.is_cancelled() {
            let pause = self.step(&mut last).await.unwrap_or_else(|error| {
                limited!(FAILED[0], warn, %error, "executing replay jobs failed; retrying");
                POLL_INTERVAL
            });
            shutdown.run_until_cancelled(sleep(pause)).await;
        }
    }

    /// Executes a batch of each of the next jobs after the `last` one. Returns the pause before the next step.
    async fn step(&self, last: &mut Uuid) -> Result<Duration, TxError> {
        let slots: Vec<i16> = self.open.borrow().held.iter().map(|lease| lease.slot).collect();
        let (jobs, has_more) = store::load_open_jobs(&self.database, &slots, *last).await?;
        let mut pause = if jobs.is_empty() { POLL_INTERVAL } else { BATCH_INTERVAL };
        for job in jobs {
            // After an error it is the turn of the others.
            *last = job.1;
            match store::replay_batch(&self.database, job).await {
                Ok(Some((_, Some(state)))) => tracing::info!(job = %job.1, state, "replay job ended"),
                Ok(Some((true, None))) => {
                    drop(self.events.send(Event::Woken { outbox: 0, deliveries: true }));
                }
                Ok(Some((false, None))) => pause = Duration::ZERO,
                Ok(None) => {}
                Err(error) if error.is_unavailable() => return Err(error),
                Err(error) => {
                    limited!(FAILED[1], warn, job = %job.1, %error, "a batch of a replay job failed; retrying after other jobs");
                }
            }
        }
        if has_more {
            return Ok(Duration::ZERO);
        }
        *last = Uuid::nil();
        Ok(pause)
    }
}
