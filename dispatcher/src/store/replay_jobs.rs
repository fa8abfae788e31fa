//! Replay jobs, and the deliveries that they replay.

use super::query_in_time;
use common::db::{Database, TxError};
use tokio_postgres::Row;
use uuid::Uuid;

/// Jobs that are looked at; further ones wait until an older one has ended.
const JOBS: i64 = 64;
/// Deliveries that a batch considers, whether or not the job selects them.
const CONSIDERED: i64 = 1_000;

common::statements! {
    const OPEN = "
    -- replay_jobs.open
    SELECT tenant_id, job_id, state = 'stopping'
    FROM replay_jobs WHERE state IN ('running', 'stopping') ORDER BY job_id LIMIT $1::bigint";

    // A batch and the job's progress are one statement, so that a job replays no delivery twice. If two dispatchers execute the job
    // for a moment, the second one skips it. It considers the next deliveries of the tenant in the order of their ids, whichever
    // they are, so that the number of rows that are read does not depend on how many the job selects, and replays as many as the
    // rate allows since the last batch, at most those of a second. A delivery that is changed meanwhile is left out.
    //
    // The index of open jobs could serve a plain condition on the state as well as the primary key.
    const BATCH = "
    -- replay_jobs.batch
    WITH job AS MATERIALIZED (
        SELECT states, event_type, subscription_id, greatest(last_id, first_id) AS last_id, end_id,
               floor(per_second * least(greatest(extract(epoch FROM now() - batch_at), 0), 1))::bigint AS allowed
        FROM replay_jobs WHERE tenant_id = $1 AND job_id = $2 AND (state = 'running') IS TRUE
        FOR UPDATE SKIP LOCKED
    ), page AS MATERIALIZED (
        SELECT d.row, d.delivery_id, job.allowed,
               d.state = ANY(job.states) AND (job.subscription_id IS NULL OR d.subscription_id = job.subscription_id)
               AND (SELECT removed_at IS NULL FROM subscriptions s
                    WHERE s.tenant_id = $1 AND s.subscription_id = d.subscription_id LIMIT 1)
               AND (job.event_type IS NULL OR (SELECT o.event_type = job.event_type FROM outbox o
                    WHERE o.tenant_id = $1 AND o.event_id = d.event_id LIMIT 1)) IS TRUE AS is_selected
        FROM job
        CROSS JOIN LATERAL (
            SELECT ctid AS row, * FROM deliveries d
            WHERE d.tenant_id = $1 AND d.delivery_id > job.last_id AND d.delivery_id < job.end_id
            ORDER BY d.delivery_id LIMIT $3::bigint
        ) AS d
        WHERE job.allowed > 0
    ), batch AS MATERIALIZED (
        SELECT * FROM (
            SELECT *, count(*) FILTER (WHERE is_selected) OVER (ORDER BY delivery_id) AS nth FROM page
        ) AS page
        WHERE nth <= allowed
    ), replayed AS (
        UPDATE deliveries
        SET state = 'pending', attempts_before = attempts, next_attempt_at = now(), needs_notice = false
        WHERE ctid = ANY(ARRAY(SELECT row FROM batch WHERE is_selected)) AND state IN ('dead', 'delivered')
        RETURNING 1
    ), done AS (
        SELECT count(*) AS replayed FROM replayed
    ), advanced AS (
        UPDATE replay_jobs j
        SET last_id = coalesce((SELECT delivery_id FROM batch ORDER BY delivery_id DESC LIMIT 1), j.last_id),
            replayed = j.replayed + done.replayed,
            batch_at = CASE WHEN done.replayed > 0 THEN now() ELSE j.batch_at END,
            state = CASE WHEN EXISTS (SELECT FROM page) THEN j.state ELSE 'completed' END,
            ended_at = CASE WHEN EXISTS (SELECT FROM page) THEN NULL ELSE now() END
        FROM job, done
        WHERE j.tenant_id = $1 AND j.job_id = $2 AND job.allowed > 0
        RETURNING j.state
    )
    SELECT done.replayed > 0, advanced.state = 'completed' FROM advanced, done";

    const STOP = "
    -- replay_jobs.end_stopped
    UPDATE replay_jobs SET state = 'stopped', ended_at = now()
    WHERE tenant_id = $1 AND job_id = $2 AND (state = 'stopping') IS TRUE";
}

/// A job that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenReplayJob {
    pub tenant_id: Uuid,
    pub id: Uuid,
    /// Whether an operator has stopped it.
    pub is_stopping: bool,
}

/// The result of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplayBatch {
    /// Deliveries are due now.
    Replayed,
    /// None of those that were considered was replayed. Others may be replayed at once.
    NoneSelected,
    /// The job is completed: no delivery is left.
    Completed,
    /// The rate does not permit any yet, the job is not running any more, or another program executes it.
    Waits,
}

/// Loads jobs that have not ended, the oldest first.
pub(crate) async fn load_open_jobs(database: &Database) -> Result<Vec<OpenReplayJob>, TxError> {
    let open = |row: &Row| {
        let (tenant_id, id, is_stopping) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(OpenReplayJob { tenant_id, id, is_stopping })
    };
    query_in_time(database, OPEN, &[&JOBS]).await?.iter().map(open).collect()
}

/// Replays the next deliveries of a job.
pub(crate) async fn replay_batch(database: &Database, job: OpenReplayJob) -> Result<ReplayBatch, TxError> {
    let rows = query_in_time(database, BATCH, &[&job.tenant_id, &job.id, &CONSIDERED]).await?;
    let Some(row) = rows.first() else { return Ok(ReplayBatch::Waits) };
    Ok(match (row.try_get(0)?, row.try_get(1)?) {
        (_, true) => ReplayBatch::Completed,
        (true, false) => ReplayBatch::Replayed,
        (false, false) => ReplayBatch::NoneSelected,
    })
}

/// Ends a job that an operator has stopped.
pub(crate) async fn stop_job(database: &Database, job: OpenReplayJob) -> Result<(), TxError> {
    query_in_time(database, STOP, &[&job.tenant_id, &job.id]).await.map(drop)
}
