//! Executes replay jobs: the leader parks the deliveries of each job in batches, in the order of their ids and at the rate of
//! the job.
//!
//! A batch and the job's progress commit together, so that a job replays no delivery twice, also when its program is killed. The
//! next leader continues with what is stored.

use super::{RETRY_WAITS, Relay};
use crate::store::{self, HeldReplayJob, OpenReplayJob, ReplayCandidate};
use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use common::db::{TransactionBody, TxError};
use common::limited;
use common::log_limit::LogLimit;
use common::retry::RetryWaits;
use deadpool_postgres::Transaction;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Limits the log lines about failures.
static FAILED: LogLimit<2> = LogLimit::new();

/// How often new jobs are looked for, and the time between two batches of a job.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const BATCH_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of jobs that are executed at the same time; further ones wait until an older one has ended.
const JOBS: i64 = 64;
/// Maximum number of deliveries that are read for a batch of a job that selects an event type: the rows of deliveries do not
/// contain it.
const SCANNED: i64 = 500;
/// Failed attempts to remove dead letters after which a job ends all the same.
const LETTER_ATTEMPTS: u32 = 5;

/// Executes jobs while this copy is the leader.
#[derive(Debug)]
pub(super) struct ReplayJobs {
    relay: Relay,
    waits: RetryWaits,
    /// Failed attempts to remove dead letters since the last successful one.
    letter_failures: u32,
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BatchOutcome {
    /// More deliveries may follow, as soon as the rate of the job permits.
    MoreLater,
    /// None of the deliveries that were read was replayed, because none has the job's event type and one of its states. Others
    /// may be replayed at once.
    MoreNow,
    /// No delivery is left.
    Finished,
    /// It is not running any more, or another program executes it.
    NotHeld,
}

impl ReplayJobs {
    pub(super) const fn new(relay: Relay) -> Self {
        Self { relay, waits: RETRY_WAITS, letter_failures: 0 }
    }

    /// Executes jobs until `leadership_ended`. Notifies the relay of parked deliveries after each batch. Failures are
    /// retried, and do not end the leadership: other deliveries do not depend on jobs.
    pub(super) async fn run(&mut self, parked: &Notify, leadership_ended: &CancellationToken) {
        while !leadership_ended.is_cancelled() {
            let pause = match self.step(parked, leadership_ended).await {
                Ok(pause) => {
                    self.waits.reset();
                    pause
                }
                Err(error) => {
                    let wait = self.waits.next_wait();
                    limited!(FAILED[0], warn, %error, ?wait, "executing replay jobs failed; retrying");
                    wait
                }
            };
            leadership_ended.run_until_cancelled(sleep(pause)).await;
        }
    }

    /// Executes a batch of each open job. Returns the pause before the next step.
    async fn step(
        &mut self,
        parked: &Notify,
        leadership_ended: &CancellationToken,
    ) -> Result<Duration, TxError> {
        let client = self.relay.database.client().await?;
        let jobs = store::load_open_jobs(&client, JOBS).await?;
        drop(client);
        let mut pause = if jobs.is_empty() { POLL_INTERVAL } else { BATCH_INTERVAL };
        for job in jobs {
            if leadership_ended.is_cancelled() {
                break;
            }
            if job.is_stopping {
                self.end(job).await?;
                continue;
            }
            match self.relay.database.run_tx("replay_batch", &ReplayBatch { job }).await? {
                BatchOutcome::MoreLater => parked.notify_one(),
                BatchOutcome::MoreNow => pause = Duration::ZERO,
                BatchOutcome::Finished => self.end(job).await?,
                BatchOutcome::NotHeld => {}
            }
        }
        Ok(pause)
    }

    /// Removes the dead letters of replayed deliveries, and ends the job. Until the dead letters are removed the job stays open.
    async fn end(&mut self, job: OpenReplayJob) -> Result<(), TxError> {
        if job.replays_dead {
            match self.relay.remove_replayed_letters(job.tenant_id).await {
                Ok(()) => self.letter_failures = 0,
                Err(error) if self.letter_failures + 1 < LETTER_ATTEMPTS => {
                    self.letter_failures += 1;
                    return Err(error);
                }
                Err(error) => {
                    self.letter_failures = 0;
                    limited!(FAILED[1], error, %error, job = %job.id, "removing the dead letters of replayed deliveries failed; ending the replay job and leaving them");
                }
            }
        }
        let client = self.relay.database.client().await?;
        store::end_job(&client, job, clock::now()).await?;
        tracing::info!(job = %job.id, stopped = job.is_stopping, "replay job ended");
        Ok(())
    }
}

/// A batch of a job.
struct ReplayBatch {
    job: OpenReplayJob,
}

impl TransactionBody for ReplayBatch {
    type Output = BatchOutcome;

    async fn run(&self, tx: &Transaction<'_>) -> Result<BatchOutcome, TxError> {
        let Some(held) = store::hold_job(tx, self.job).await? else { return Ok(BatchOutcome::NotHeld) };
        let now = clock::now();
        let allowed = allowance(held.per_second, held.batch_at, now);
        if allowed == 0 {
            return Ok(BatchOutcome::MoreLater);
        }
        let limit = if held.event_type.is_some() { SCANNED } else { allowed };
        let read = store::load_candidates(tx, self.job.tenant_id, &held, limit).await?;
        let Some((wanted, last)) = select(&held, &read, allowed) else { return Ok(BatchOutcome::Finished) };
        let (states, job) = (&held.states, self.job);
        let replayed = store::replay_batch(tx, job, states, (&wanted, last), now).await?;
        Ok(if replayed == 0 { BatchOutcome::MoreNow } else { BatchOutcome::MoreLater })
    }
}

/// Deliveries that a job may replay at `now`: those of the time since its last batch, at most of a second.
fn allowance(per_second: i32, batch_at: DateTime<Utc>, now: DateTime<Utc>) -> i64 {
    let since = (now - batch_at).clamp(TimeDelta::zero(), TimeDelta::seconds(1));
    i64::from(per_second) * since.num_milliseconds() / 1_000
}

/// Those of the deliveries that the job replays, at most `allowed`, and the last one that was considered. `None` if none was
/// read.
fn select(job: &HeldReplayJob, read: &[ReplayCandidate], allowed: i64) -> Option<(Vec<Uuid>, Uuid)> {
    let matches = |candidate: &&ReplayCandidate| {
        job.event_type.is_none() || candidate.event_type.as_ref() == job.event_type.as_ref()
    };
    let allowed = usize::try_from(allowed).unwrap_or_default();
    let wanted: Vec<Uuid> =
        read.iter().filter(matches).map(|candidate| candidate.delivery_id).take(allowed).collect();
    let is_cut = wanted.len() == allowed;
    let last = if is_cut { wanted.last().copied() } else { read.last().map(|read| read.delivery_id) };
    Some((wanted, last?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(event_type: Option<&str>) -> HeldReplayJob {
        HeldReplayJob {
            states: vec!["dead".to_owned()],
            event_type: event_type.map(str::to_owned),
            subscription_id: None,
            last_id: Uuid::nil(),
            end_id: Uuid::max(),
            per_second: 100,
            batch_at: DateTime::UNIX_EPOCH,
        }
    }

    fn candidate(id: u128, event_type: &str) -> ReplayCandidate {
        ReplayCandidate { delivery_id: Uuid::from_u128(id), event_type: Some(event_type.to_owned()) }
    }

    #[test]
    fn the_rate_limits_what_is_replayed_since_the_last_batch() {
        let allowed = |rate, millis| {
            allowance(rate, DateTime::UNIX_EPOCH, DateTime::UNIX_EPOCH + TimeDelta::milliseconds(millis))
        };
        assert_eq!((allowed(100, 0), allowed(100, 200), allowed(100, 1_000)), (0, 20, 100));
        assert_eq!(allowed(100, 60_000), 100, "a pause is not made up for");
        assert_eq!((allowed(1, 999), allowed(1, 1_000)), (0, 1));
        assert_eq!(allowed(100, -5_000), 0, "another machine's clock may be ahead");
    }

    #[test]
    fn a_batch_continues_after_the_last_delivery_that_was_considered() {
        let read = [candidate(1, "a"), candidate(2, "b"), candidate(3, "a"), candidate(4, "b")];
        let selected = |event_type, allowed| {
            let (wanted, last) = select(&job(event_type), &read, allowed)?;
            Some((wanted.iter().map(Uuid::as_u128).collect::<Vec<_>>(), last.as_u128()))
        };
        assert_eq!(selected(None, 10), Some((vec![1, 2, 3, 4], 4)));
        assert_eq!(selected(None, 2), Some((vec![1, 2], 2)));
        assert_eq!(selected(Some("a"), 10), Some((vec![1, 3], 4)));
        assert_eq!(selected(Some("a"), 1), Some((vec![1], 1)));
        assert_eq!(selected(Some("c"), 1), Some((vec![], 4)), "none matches");
        assert_eq!(select(&job(None), &[], 5), None, "no delivery is left");
    }
}
