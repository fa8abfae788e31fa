//! Replay jobs, and the deliveries that they replay.

use super::query;
use common::db::{Database, TxError};
use uuid::Uuid;

/// Jobs that are read together.
const JOBS: i64 = 64;
/// Deliveries that a batch considers, whether or not the job selects them.
const CONSIDERED: i64 = 1_000;

common::statements! {
    const OPEN = "
    -- replay_jobs.open
    SELECT tenant_id, job_id FROM replay_jobs
    WHERE state IN ('running', 'stopping') AND job_id > $1
      AND (get_byte(uuid_send(tenant_id), 15) & 63)::smallint = ANY($2::smallint[])
    ORDER BY job_id LIMIT $3::bigint";

    // A batch and the job's progress are one statement, so that a job replays no delivery twice. If two dispatchers execute the job
    // for a moment, the second one skips it. It considers the next deliveries of the tenant in the order of their ids, whichever
    // they are, so that the number of rows that are read does not depend on how many the job selects, and replays as many as the
    // rate allows since the last batch, at most those of a second. A delivery that is changed meanwhile is left out. The batch ends
    // before one that another transaction has locked, because the jobs of other tenants must not wait for it.
    //
    // The index of open jobs could serve a plain condition on the state as well as the primary key.
    const BATCH = "
    -- replay_jobs.batch
    WITH job AS MATERIALIZED (
        SELECT states, event_type, subscription_id, greatest(last_id, first_id) AS last_id, end_id, state = 'stopping' AS is_stopping,
               floor(per_second * least(abs(extract(epoch FROM now() - batch_at)), 1))::bigint AS allowed
        FROM replay_jobs WHERE tenant_id = $1 AND job_id = $2 AND (state IN ('running', 'stopping')) IS TRUE
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
        WHERE job.allowed > 0 AND NOT job.is_stopping
    ), wanted AS MATERIALIZED (
        SELECT * FROM (
            SELECT *, count(*) FILTER (WHERE is_selected) OVER (ORDER BY delivery_id) AS nth FROM page
        ) AS page
        WHERE nth <= allowed
    ), free AS MATERIALIZED (
        SELECT ctid AS row FROM deliveries WHERE ctid = ANY(ARRAY(SELECT row FROM wanted WHERE is_selected))
        FOR NO KEY UPDATE SKIP LOCKED
    ), batch AS MATERIALIZED (
        SELECT * FROM wanted WHERE (delivery_id < (
            SELECT delivery_id FROM wanted WHERE is_selected AND row NOT IN (SELECT row FROM free) ORDER BY 1 LIMIT 1
        )) IS NOT FALSE
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
            state = CASE WHEN job.is_stopping THEN 'stopped' WHEN EXISTS (SELECT FROM page) THEN j.state ELSE 'completed' END,
            ended_at = CASE WHEN EXISTS (SELECT FROM page) THEN NULL ELSE now() END
        FROM job, done
        WHERE j.tenant_id = $1 AND j.job_id = $2
          AND (job.is_stopping OR job.allowed > 0 AND (EXISTS (SELECT FROM batch) OR NOT EXISTS (SELECT FROM page)))
        RETURNING j.state
    )
    SELECT done.replayed > 0, nullif(advanced.state, 'running') FROM advanced, done";
}

/// A job that has not ended: its tenant and its id.
pub(crate) type OpenReplayJob = (Uuid, Uuid);

/// Loads the next jobs of these slots that have not ended, in the order of their ids. Returns whether more may follow.
pub(crate) async fn load_open_jobs(
    database: &Database, slots: &[i16], after: Uuid,
) -> Result<(Vec<OpenReplayJob>, bool), TxError> {
    let rows = query(database, OPEN, &[&after, &slots, &JOBS]).await?;
    let jobs: Result<_, TxError> = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).collect();
    Ok((jobs?, i64::try_from(rows.len()) == Ok(JOBS)))
}

/// Replays the next deliveries of a job, or ends it if an operator has stopped it. Returns whether deliveries are due now - if none
/// of those that were considered was replayed, others may be at once - and the state of a job that has ended. `None` if the rate
/// does not permit any yet, another transaction has locked the next one, or another program executes the job.
pub(crate) async fn replay_batch(
    database: &Database, (tenant, job): OpenReplayJob,
) -> Result<Option<(bool, Option<String>)>, TxError> {
    let rows = query(database, BATCH, &[&tenant, &job, &CONSIDERED]).await?;
    rows.first().map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose()
}
