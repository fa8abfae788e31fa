//! The last minutes: counts, lengths of queues, and what waits longest.

use super::{all, exactly_one, read_row};
use crate::Result;
use chrono::{DateTime, Utc};
use common::broker::Queue;
use common::model::TenantId;
use tokio_postgres::{Client, Row};
use uuid::Uuid;

/// What happened in a minute, or in an hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ActivityMinute {
    /// Its first moment, by the clock of the program that counted last.
    pub at: DateTime<Utc>,
    /// Requests with valid credentials that were not refused. Those that got a status of 500 or above are not counted.
    pub accepted: i64,
    /// Refused requests that named an existing key.
    pub refused: i64,
    /// Requests with a status of 500 or above: of each code at most those of 16 minutes are known.
    pub server_errors: i64,
    /// Events that were applied; duplicates are not among them.
    pub applied: i64,
    /// Events that were failed.
    pub failed: i64,
    /// Attempts at webhooks with a 2xx status.
    pub delivered: i64,
    /// Other attempts at webhooks.
    pub undelivered: i64,
}

/// What the programs saw of a queue last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueState {
    /// The queue, whatever its prefix.
    pub(crate) queue: Queue,
    /// When a program looked last, at most half a minute ago while one runs.
    pub(crate) observed_at: DateTime<Utc>,
    /// Messages that waited.
    pub(crate) ready: i64,
    /// Consumers that the broker knew.
    pub(crate) consumers: i64,
    /// Messages of its dead-letter queue.
    pub(crate) dead: i64,
    /// What waits in the queue was published later, unless it was requeued; `None` if that is unknown.
    pub(crate) published_after: Option<DateTime<Utc>>,
}

common::statements! {
    const MINUTES = "-- activity_minutes.last
    SELECT minute, sum(accepted)::bigint AS accepted, sum(refused)::bigint AS refused,
           sum(server_errors)::bigint AS server_errors, sum(applied)::bigint AS applied, sum(failed)::bigint AS failed,
           sum(delivered)::bigint AS delivered, sum(undelivered)::bigint AS undelivered
    FROM (SELECT minute, accepted, refused, 0 AS server_errors, applied, failed, delivered, undelivered
          FROM activity_minutes WHERE tenant_id = $1 AND minute >= $2 AND slot BETWEEN $3::smallint AND $4::smallint
          UNION ALL
          SELECT date_trunc(CASE WHEN $3 < 64 THEN 'minute' ELSE 'hour' END, minute, 'UTC'), 0, 0, failed, 0, 0, 0, 0
          FROM failure_minutes WHERE tenant_id = $1 AND minute >= $2 AND cause LIKE 'response:%') AS counted
    GROUP BY minute ORDER BY minute";

    const LENGTHS = "-- queue_minutes.last
    SELECT m.minute, m.ready
    FROM queue_minutes m WHERE m.queue = $1 AND m.minute >= $2 ORDER BY m.minute";

    const STATES = "-- queue_states.list
    SELECT s.queue, s.observed_at, s.ready, s.consumers, s.dead, GREATEST(s.empty_at, s.taken_of) AS published_after
    FROM unnest($1::text[]) AS q (queue)
    CROSS JOIN LATERAL (SELECT * FROM queue_states s WHERE s.queue = q.queue LIMIT 1) s";

    /// The hour of an agency first: if it has none of these, its minutes are not read. One whose last one was three minutes ago
    /// needs no attention any more. Slots are those of `common::activity`.
    const REFUSED_MOST = "-- activity_minutes.refused_most
    WITH slots AS MATERIALIZED (
        SELECT array_agg((n % 64)::smallint) AS minutes, array_agg(DISTINCT (64 + n / 60 % 192)::smallint) AS hours
        FROM generate_series(extract(epoch FROM $1::timestamptz)::bigint / 60, extract(epoch FROM now())::bigint / 60) n
    )
    SELECT t.slug, m.count
    FROM slots CROSS JOIN (SELECT tenant_id, slug FROM tenants ORDER BY tenant_id) t CROSS JOIN LATERAL (
        SELECT sum(a.refused)::bigint AS count, max(a.minute) FILTER (WHERE a.refused > 0) AS last
        FROM activity_minutes a WHERE a.tenant_id = t.tenant_id AND a.slot = ANY(slots.minutes) AND a.minute >= $1
          AND EXISTS (SELECT FROM activity_minutes h WHERE h.tenant_id = t.tenant_id AND h.slot = ANY(slots.hours)
                      AND h.minute > $1 - interval '1 hour' AND h.refused > 0)
    ) m
    WHERE m.last > now() - interval '3 minutes' ORDER BY m.count DESC, t.slug LIMIT 3";

    /// By receivers that still fail, as the overview of their agency says it.
    const UNDELIVERED_MOST = "-- failure_minutes.undelivered_most
    SELECT t.slug, w.count
    FROM (
        SELECT r.tenant_id, sum(r.failed)::bigint AS count
        FROM (
            SELECT f.tenant_id, sum(f.failed) FILTER (WHERE f.minute >= $1) AS failed
            FROM (
                SELECT tenant_id, cause, minute, failed, succeeded,
                       minute = max(minute) OVER (PARTITION BY tenant_id, cause) AS is_newest
                FROM failure_minutes WHERE cause >= 'receiver:' AND cause < 'receiver;'
            ) f
            GROUP BY f.tenant_id, f.cause
            HAVING bool_or(f.failed > 0 AND (f.minute > now() - interval '3 minutes' OR f.is_newest AND f.failed > f.succeeded))
        ) r
        WHERE r.failed > 0 GROUP BY r.tenant_id ORDER BY count DESC, r.tenant_id LIMIT 3
    ) w CROSS JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = w.tenant_id LIMIT 1) t
    ORDER BY w.count DESC, t.slug";

    const WAITING_ACTIONS = "-- advisor_actions.waiting
    SELECT count(*), min(received_at)
    FROM (SELECT received_at FROM advisor_actions ORDER BY tenant_id LIMIT 10000) waiting";

    // Of the next thousand subscriptions with pending deliveries, with the last one of these: all of them may take longer than a
    // statement may.
    const OLDEST_DUE = "-- deliveries.oldest_due
    WITH page AS MATERIALIZED (SELECT * FROM pending_subscriptions($1, $2, 1000) AS page)
    SELECT slot, subscription_id, (SELECT min(next_attempt_at) FROM page WHERE NOT is_paused) AS due
    FROM page ORDER BY slot DESC, subscription_id DESC LIMIT 1";

    const OLDEST_PENDING = "-- outbox_pending.oldest
    SELECT min(created_at) AS created_at FROM pending_tenants() waiting";

    const OLDEST_OF_TENANT = "-- deliveries.oldest_of_tenant
    SELECT least(
        (SELECT created_at FROM outbox_pending WHERE slot = $2 AND tenant_id = $1 ORDER BY event_id LIMIT 1),
        (SELECT min(d.next_attempt_at)
         FROM subscriptions s
         CROSS JOIN LATERAL (
             SELECT next_attempt_at FROM deliveries d
             WHERE d.slot = $2 AND d.subscription_id = s.subscription_id AND d.state = 'pending'
             ORDER BY next_attempt_at LIMIT 1
         ) AS d
         WHERE s.tenant_id = $1 AND s.removed_at IS NULL AND s.paused_at IS NULL)
    ) AS due";

    const DEAD = "-- deliveries.count_dead
    SELECT count(*) FROM (SELECT FROM deliveries WHERE state = 'dead' ORDER BY tenant_id, delivery_id LIMIT 1001) dead";
}

/// The counts of a tenant, or of all of them for the nil UUID, from `first` on: of minutes, or of hours. Those without any are missing.
pub(crate) async fn counts(
    client: &Client, tenant: Uuid, first: DateTime<Utc>, are_hours: bool,
) -> Result<Vec<ActivityMinute>> {
    let (from, to): (i16, i16) = if are_hours { (64, 255) } else { (0, 63) };
    let read = |row: &Row| {
        Ok(read_row!(row => ActivityMinute {
            at = "minute", accepted, refused, server_errors, applied, failed, delivered, undelivered
        }))
    };
    all(client, MINUTES, &[&tenant, &first, &from, &to], read).await
}

/// The three agencies with the most refused requests, or else failed attempts at webhooks, from a minute on, with their numbers.
pub(crate) async fn worst(client: &Client, first: DateTime<Utc>, are_refused: bool) -> Result<Vec<(String, i64)>> {
    let read = |row: &Row| Ok((row.try_get("slug")?, row.try_get("count")?));
    all(client, if are_refused { REFUSED_MOST } else { UNDELIVERED_MOST }, &[&first], read).await
}

/// The lengths of a queue from `first` on. Minutes in which no program looked at it are missing.
pub(crate) async fn lengths(client: &Client, queue: Queue, first: DateTime<Utc>) -> Result<Vec<(DateTime<Utc>, i64)>> {
    let read = |row: &Row| Ok((row.try_get("minute")?, row.try_get("ready")?));
    all(client, LENGTHS, &[&queue.as_str(), &first], read).await
}

/// What the programs saw of the queues last. A queue that nobody has looked at is missing.
pub(crate) async fn queue_states(client: &Client) -> Result<Vec<QueueState>> {
    let names = Queue::CONSUMED.map(Queue::as_str);
    let states = all(client, STATES, &[&names.as_slice()], queue_state).await?;
    let mut states: Vec<QueueState> = states.into_iter().flatten().collect();
    let (waiting, oldest) = waiting_actions(client).await?;
    let crm = states.iter_mut().find(|state| state.queue == Queue::Crm);
    if let Some(crm) = crm.filter(|_| waiting > 0) {
        crm.ready += i64::from(waiting);
        crm.published_after = oldest;
    }
    Ok(states)
}

/// How many advisor actions wait in the database, and since when the oldest does; of the first 10,000.
pub(crate) async fn waiting_actions(client: &Client) -> Result<(u32, Option<DateTime<Utc>>)> {
    let row = exactly_one(client, WAITING_ACTIONS, &[]).await?;
    Ok((u32::try_from(row.try_get::<_, i64>(0)?).unwrap_or(u32::MAX), row.try_get(1)?))
}

/// When the delivery that is due the longest was due, or the next one will be, without those of paused subscriptions. It reads two
/// rows of each subscription with pending deliveries.
pub(crate) async fn oldest_due(client: &Client) -> Result<Option<DateTime<Utc>>> {
    let (mut oldest, mut after) = (None::<DateTime<Utc>>, (-1_i16, Uuid::nil()));
    while let Some(row) = client.query_opt(OLDEST_DUE.as_str(), &[&after.0, &after.1]).await? {
        let due: Option<DateTime<Utc>> = row.try_get("due")?;
        oldest = oldest.into_iter().chain(due).min();
        after = (row.try_get("slot")?, row.try_get("subscription_id")?);
    }
    Ok(oldest)
}

/// The same of one tenant; or when its oldest event was created that is not fanned out, if that is earlier.
pub(crate) async fn oldest_of_tenant(client: &Client, tenant: TenantId) -> Result<Option<DateTime<Utc>>> {
    Ok(exactly_one(client, OLDEST_OF_TENANT, &[&tenant.0, &tenant.slot()]).await?.try_get("due")?)
}

/// When the oldest event that is not fanned out was created. It reads a row of each tenant with such events.
pub(crate) async fn oldest_pending(client: &Client) -> Result<Option<DateTime<Utc>>> {
    Ok(exactly_one(client, OLDEST_PENDING, &[]).await?.try_get("created_at")?)
}

/// The number of dead-lettered deliveries, counted up to 1,001.
pub(crate) async fn dead(client: &Client) -> Result<i64> {
    Ok(exactly_one(client, DEAD, &[]).await?.try_get(0)?)
}

fn queue_state(row: &Row) -> Result<Option<QueueState>> {
    let name: &str = row.try_get("queue")?;
    let Some(queue) = Queue::ALL.into_iter().find(|queue| queue.as_str() == name) else { return Ok(None) };
    Ok(Some(read_row!(row => QueueState {
        queue: queue, observed_at, ready, consumers, dead, published_after
    })))
}
