//! Replay jobs, and the deliveries that they replay.

use super::{execute, query};
use chrono::{DateTime, Utc};
use common::db::TxError;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    const OPEN = "
    -- replay_jobs.open
    SELECT tenant_id, job_id, 'dead' = ANY(states), state = 'stopping'
    FROM replay_jobs WHERE state IN ('running', 'stopping') ORDER BY job_id LIMIT $1::bigint";

    // Of two leaders for a moment, the second one skips the job. The state is no condition, because the index of open jobs
    // could serve it as well as the primary key.
    const HOLD = "
    -- replay_jobs.hold
    SELECT states, event_type, subscription_id, last_id, end_id, per_second, batch_at, state = 'running'
    FROM replay_jobs WHERE tenant_id = $1 AND job_id = $2 FOR UPDATE SKIP LOCKED";

    // In the order of the deliveries' ids: of each subscription and state as many as are read in total.
    const NEXT = "
    -- deliveries.next_to_replay
    SELECT d.delivery_id, o.event_type
    FROM (
        SELECT d.delivery_id, d.event_id
        FROM (
            SELECT subscription_id FROM subscriptions
            WHERE tenant_id = $1 AND removed_at IS NULL AND ($2::uuid IS NULL OR subscription_id = $2) OFFSET 0
        ) AS s
        CROSS JOIN unnest($3::text[]) AS w (state)
        CROSS JOIN LATERAL (
            SELECT d.delivery_id, d.event_id FROM deliveries d
            WHERE uuid_send(d.subscription_id) = uuid_send(s.subscription_id) AND d.state = w.state
              AND d.delivery_id > $4 AND d.delivery_id < $5 AND d.tenant_id IS NOT DISTINCT FROM $1
            ORDER BY d.delivery_id LIMIT $6::bigint
        ) AS d
        ORDER BY d.delivery_id LIMIT $6::bigint
    ) AS d
    LEFT JOIN LATERAL (
        SELECT event_type FROM outbox o WHERE $7::boolean AND o.tenant_id = $1 AND o.event_id = d.event_id LIMIT 1
    ) AS o ON true
    ORDER BY d.delivery_id";

    // Guarded by the state, so that what was replayed meanwhile is not replayed again. A subscription that is removed meanwhile
    // drops its deliveries when they are published.
    const REPLAY = "
    -- deliveries.replay_batch
    UPDATE deliveries SET state = 'pending', attempts_before = attempts, parked_at = $4, next_attempt_at = $4
    WHERE ctid = ANY(ARRAY(
        SELECT found.place
        FROM unnest($2::uuid[]) AS wanted (delivery_id)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place FROM deliveries d
            WHERE d.tenant_id = $1 AND d.delivery_id = wanted.delivery_id AND d.state = ANY($3::text[])
            LIMIT 1 FOR UPDATE
        ) AS found
    ))";

    const ADVANCE = "
    -- replay_jobs.advance
    UPDATE replay_jobs SET last_id = $3, replayed = replayed + $4,
        batch_at = CASE WHEN $4 > 0 THEN $5 ELSE batch_at END
    WHERE tenant_id = $1 AND job_id = $2";

    const END = "
    -- replay_jobs.end
    UPDATE replay_jobs SET state = CASE state WHEN 'running' THEN 'completed' ELSE 'stopped' END, ended_at = $3
    WHERE tenant_id = $1 AND job_id = $2 AND state NOT IN ('completed', 'stopped')";
}

/// A job that has not ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenReplayJob {
    pub tenant_id: Uuid,
    pub id: Uuid,
    /// Whether it replays dead deliveries, whose messages are in the dead-letter queue.
    pub replays_dead: bool,
    /// Whether an operator has stopped it.
    pub is_stopping: bool,
}

/// What a running job replays, locked until the transaction ends.
#[derive(Clone, Debug)]
pub(crate) struct HeldReplayJob {
    /// The states of the deliveries.
    pub states: Vec<String>,
    /// Only deliveries of events of this type.
    pub event_type: Option<String>,
    /// Only deliveries to this subscription.
    pub subscription_id: Option<Uuid>,
    /// The last delivery that was considered.
    pub last_id: Uuid,
    /// Only deliveries with lower ids.
    pub end_id: Uuid,
    /// Maximum number of deliveries in a second.
    pub per_second: i32,
    /// When the last batch was replayed.
    pub batch_at: DateTime<Utc>,
}

/// A delivery that a job considers.
#[derive(Clone, Debug)]
pub(crate) struct ReplayCandidate {
    pub delivery_id: Uuid,
    /// Read only for a job with an event type.
    pub event_type: Option<String>,
}

/// Loads jobs that have not ended, the oldest first.
pub(crate) async fn load_open_jobs(
    on: &impl GenericClient,
    limit: i64,
) -> Result<Vec<OpenReplayJob>, TxError> {
    let open = |row: &Row| OpenReplayJob {
        tenant_id: row.get(0),
        id: row.get(1),
        replays_dead: row.get(2),
        is_stopping: row.get(3),
    };
    Ok(query(on, OPEN, &[&limit]).await?.iter().map(open).collect())
}

/// Locks a job. `None` if it is not running any more, or another program executes it.
pub(crate) async fn hold_job(
    on: &impl GenericClient,
    job: OpenReplayJob,
) -> Result<Option<HeldReplayJob>, TxError> {
    let rows = query(on, HOLD, &[&job.tenant_id, &job.id]).await?;
    Ok(rows.first().filter(|row| row.get(7)).map(|row| HeldReplayJob {
        states: row.get(0),
        event_type: row.get(1),
        subscription_id: row.get(2),
        last_id: row.get(3),
        end_id: row.get(4),
        per_second: row.get(5),
        batch_at: row.get(6),
    }))
}

/// Loads the next deliveries that a job considers, at most `limit`.
pub(crate) async fn load_candidates(
    on: &impl GenericClient,
    tenant: Uuid,
    job: &HeldReplayJob,
    limit: i64,
) -> Result<Vec<ReplayCandidate>, TxError> {
    let HeldReplayJob { states, event_type, subscription_id, last_id, end_id, .. } = job;
    let has_type = event_type.is_some();
    let rows =
        query(on, NEXT, &[&tenant, subscription_id, states, last_id, end_id, &limit, &has_type]).await?;
    let candidate = |row: &Row| ReplayCandidate { delivery_id: row.get(0), event_type: row.get(1) };
    Ok(rows.iter().map(candidate).collect())
}

/// Parks those of the deliveries that are still in one of the job's states, to be attempted from `now` on, and notes how far
/// the job has come. Returns the number of parked deliveries.
pub(crate) async fn replay_batch(
    on: &impl GenericClient,
    job: OpenReplayJob,
    states: &[String],
    (deliveries, last): (&[Uuid], Uuid),
    now: DateTime<Utc>,
) -> Result<u64, TxError> {
    let replayed = match deliveries {
        [] => 0,
        some => execute(on, REPLAY, &[&job.tenant_id, &some, &states, &now]).await?,
    };
    let number = i64::try_from(replayed).unwrap_or(i64::MAX);
    execute(on, ADVANCE, &[&job.tenant_id, &job.id, &last, &number, &now]).await?;
    Ok(replayed)
}

/// Ends a job: a running one is completed, another one stopped.
pub(crate) async fn end_job(
    on: &impl GenericClient,
    job: OpenReplayJob,
    now: DateTime<Utc>,
) -> Result<(), TxError> {
    execute(on, END, &[&job.tenant_id, &job.id, &now]).await.map(drop)
}
