//! Deliveries: one outbound event for one subscription. Parked deliveries of paused subscriptions wait until these are resumed
//! (D24).

use super::{AttemptRow, execute, query};
use chrono::{DateTime, Utc};
use common::db::{Query, Sql, TxError, column};
use common::message::DeliveryMeta;
use common::model::DeliveryState;
use deadpool_postgres::GenericClient;
use std::collections::HashMap;
use uuid::Uuid;

common::statements! {
    const KNOWN = "
    -- deliveries.known
    SELECT d.delivery_id, d.state, d.attempts, d.attempts_before
    FROM unnest($1::uuid[], $2::uuid[]) AS asked (tenant_id, delivery_id)
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE d.tenant_id = asked.tenant_id AND d.delivery_id = asked.delivery_id LIMIT 1
    ) AS d";

    // Inserts the row of a delivery, mostly in its final state after the first attempt, or updates it. A delivered one stays
    // delivered, and a recorded attempt is not replaced by a duplicate with its number.
    const RECORD = "
    -- deliveries.record
    INSERT INTO deliveries AS d (tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at,
                                 parked_at, parked_until, created_at)
    SELECT tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at, parked_at, parked_until,
           created_at
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::smallint[], $7::timestamptz[],
                $8::timestamptz[], $9::timestamptz[], $10::timestamptz[])
         AS new (tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at, parked_at,
                 parked_until, created_at)
    ORDER BY tenant_id, delivery_id
    ON CONFLICT (tenant_id, delivery_id) DO UPDATE
    SET state = excluded.state, attempts = greatest(d.attempts, excluded.attempts),
        next_attempt_at = excluded.next_attempt_at, parked_at = excluded.parked_at, parked_until = excluded.parked_until
    WHERE excluded.state = 'delivered'
       OR d.state = 'pending' AND (excluded.attempts > d.attempts
                                   OR excluded.attempts = d.attempts
                                      AND (excluded.state = 'dropped' OR excluded.parked_at IS NOT NULL))";

    // The earliest due deliveries of each subscription, in order of subscriptions after the given one, so that none delays the
    // others. Each recursive step finds the next subscription with parked deliveries in the index. Deliveries of a subscription
    // that was removed within the last hour are published as well, because the consumer drops them.
    const PARKED = "
    -- deliveries.parked
    WITH RECURSIVE waiting AS (
        (SELECT subscription_id FROM deliveries WHERE parked_at IS NOT NULL AND subscription_id > $6
         ORDER BY subscription_id LIMIT 1)
        UNION ALL
        SELECT next.subscription_id FROM waiting CROSS JOIN LATERAL (
            SELECT d.subscription_id FROM deliveries d
            WHERE d.parked_at IS NOT NULL AND d.subscription_id > waiting.subscription_id
            ORDER BY d.subscription_id LIMIT 1
        ) AS next
    )
    SELECT d.tenant_id, d.delivery_id, d.event_id, d.subscription_id, d.attempts, d.parked_at, o.event_type,
           o.envelope::text, o.traceparent, o.request_id
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT * FROM subscriptions s WHERE s.subscription_id = waiting.subscription_id LIMIT 1
    ) AS s
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE d.subscription_id = s.subscription_id AND d.tenant_id IS NOT DISTINCT FROM s.tenant_id
          AND d.parked_at IS NOT NULL AND d.next_attempt_at <= $1
          AND (d.parked_until <= $1 OR d.parked_until IS NULL OR $7::boolean OR s.subscription_id = ANY($5::uuid[]))
        ORDER BY d.next_attempt_at LIMIT $3::bigint
    ) AS d
    CROSS JOIN LATERAL (
        SELECT * FROM outbox o WHERE o.tenant_id = d.tenant_id AND o.event_id = d.event_id LIMIT 1
    ) AS o
    WHERE s.subscription_id <> ALL($2::uuid[])
      AND (s.paused_at IS NULL AND s.removed_at IS NULL OR s.removed_at > $1 - interval '1 hour')
    ORDER BY s.subscription_id
    LIMIT $4::bigint";

    // Only deliveries that were not parked again since they were read. Rows are locked first and then updated by ctid, because
    // an UPDATE that joins a list of keys may be planned as a scan of the whole table.
    const UNPARK = "
    -- deliveries.unpark
    UPDATE deliveries SET parked_at = NULL, parked_until = NULL
    WHERE ctid = ANY(ARRAY(
        SELECT found.place
        FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[]) AS done (tenant_id, delivery_id, parked_at)
        CROSS JOIN LATERAL (
            SELECT d.ctid AS place FROM deliveries d
            WHERE d.tenant_id = done.tenant_id AND d.delivery_id = done.delivery_id
              AND d.parked_at IS NOT DISTINCT FROM done.parked_at
            LIMIT 1 FOR UPDATE
        ) AS found
    ))";

    const RESCUE = "
    -- deliveries.rescue
    UPDATE deliveries SET parked_at = $1, next_attempt_at = $1
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM deliveries
        WHERE state = 'pending' AND next_attempt_at < $2 AND parked_at IS NULL
        ORDER BY next_attempt_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED
    ))";

    const OPEN = "
    -- deliveries.open
    SELECT (SELECT count(*) FROM deliveries WHERE state = 'pending' AND parked_at IS NULL)
           + (SELECT count(*) FROM deliveries WHERE parked_at IS NOT NULL),
           (SELECT count(*) FROM deliveries WHERE state = 'dead')";

    // Scans the whole table.
    const ENDED = "
    -- deliveries.ended
    SELECT count(*) FILTER (WHERE state = 'delivered'), count(*) FILTER (WHERE state = 'dropped') FROM deliveries";
}

/// The stored progress of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeliveryProgress {
    pub state: DeliveryState,
    /// Attempts that are recorded; those in progress do not count.
    pub attempts: i16,
    /// Attempts before the last replay, which `attempts` includes.
    pub attempts_before_replay: i16,
}

/// The row of a delivery to be inserted or updated.
#[derive(Clone, Debug)]
pub(crate) struct DeliveryRow {
    pub tenant_id: Uuid,
    pub delivery_id: Uuid,
    pub event_id: Uuid,
    pub subscription_id: Uuid,
    pub state: DeliveryState,
    /// Attempts made so far.
    pub attempts: i16,
    /// When the next attempt is due.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// When it was parked.
    pub parked_at: Option<DateTime<Utc>>,
    /// Until when its lane is expected to be full.
    pub parked_until: Option<DateTime<Utc>>,
}

impl DeliveryRow {
    /// The row of a delivery before the attempt of this message: pending, with the earlier attempts.
    pub(crate) fn unchanged(meta: &DeliveryMeta) -> Self {
        Self {
            tenant_id: meta.tenant_id.0,
            delivery_id: meta.delivery_id,
            event_id: meta.event_id,
            subscription_id: meta.subscription_id,
            state: DeliveryState::Pending,
            attempts: meta.attempt - 1,
            next_attempt_at: None,
            parked_at: None,
            parked_until: None,
        }
    }
}

/// A parked delivery with its event.
#[derive(Clone, Debug)]
pub(crate) struct ParkedDelivery {
    pub tenant_id: Uuid,
    pub delivery_id: Uuid,
    pub event_id: Uuid,
    pub subscription_id: Uuid,
    /// Attempts that are recorded; those in progress do not count.
    pub attempts: i16,
    /// When it was parked. `unpark` compares it, so that a delivery that was parked again meanwhile stays parked.
    pub parked_at: DateTime<Utc>,
    /// The type, such as `lead.assigned`.
    pub event_type: String,
    /// The JSON text that is signed and sent.
    pub envelope: String,
    /// The trace context of the event's cause, if known.
    pub traceparent: Option<String>,
    /// The request that caused the event, if known.
    pub request_id: Option<Uuid>,
}

/// Loads the progress of deliveries, given by tenant and id.
pub(crate) async fn load_progress(
    on: &impl GenericClient,
    keys: &[(Uuid, Uuid)],
) -> Result<HashMap<Uuid, DeliveryProgress>, TxError> {
    let rows = query(on, KNOWN, &[&column(keys, |key| key.0), &column(keys, |key| key.1)]).await?;
    let progress = |row: &tokio_postgres::Row| {
        let state = state(row.get(1))?;
        Ok((row.get(0), DeliveryProgress { state, attempts: row.get(2), attempts_before_replay: row.get(3) }))
    };
    rows.iter().map(progress).collect()
}

fn state(text: &str) -> Result<DeliveryState, TxError> {
    let unknown = || TxError::Abandoned(format!("unknown state of a delivery: {text:?}"));
    DeliveryState::parse(text).ok_or_else(unknown)
}

/// The creation time of a delivery that has no row yet: now, or the time of its first attempt if that is earlier. `attempts` must
/// be sorted by tenant and delivery.
fn creation_time(row: &DeliveryRow, attempts: &[AttemptRow], now: DateTime<Utc>) -> DateTime<Utc> {
    let key = (row.tenant_id, row.delivery_id);
    let key_of = |attempt: &AttemptRow| (attempt.tenant_id, attempt.delivery_id);
    let own = &attempts[attempts.partition_point(|attempt| key_of(attempt) < key)..];
    own.iter().take_while(|attempt| key_of(attempt) == key).fold(now, |first, attempt| first.min(attempt.at))
}

/// Inserts or updates deliveries, which must be sorted by tenant and id. `attempts` are those of the same transaction, in the
/// same order; they give a new row its creation time.
pub(super) fn record(rows: &[&DeliveryRow], attempts: &[AttemptRow], now: DateTime<Utc>) -> Query<'static> {
    Query::new(RECORD)
        .bind_column(rows, |row| row.tenant_id)
        .bind_column(rows, |row| row.delivery_id)
        .bind_column(rows, |row| row.event_id)
        .bind_column(rows, |row| row.subscription_id)
        .bind_column(rows, |row| row.state.as_str())
        .bind_column(rows, |row| row.attempts)
        .bind_column(rows, |row| row.next_attempt_at)
        .bind_column(rows, |row| row.parked_at)
        .bind_column(rows, |row| row.parked_until)
        .bind_column(rows, |row| creation_time(row, attempts, now))
}

/// Subscriptions whose lanes are full or have recovered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LaneFilter<'a> {
    /// Full lanes: nothing is loaded for them.
    pub full: &'a [Uuid],
    /// Recovered lanes: deliveries that were parked for later are loaded as well.
    pub recovered: &'a [Uuid],
    /// Whether all lanes count as recovered.
    pub all: bool,
}

/// Loads due parked deliveries of the subscriptions `after` this one: at most `each` of a subscription and `limit` in total.
pub(crate) async fn load_parked(
    on: &impl GenericClient,
    now: DateTime<Utc>,
    lanes: LaneFilter<'_>,
    after: Uuid,
    (each, limit): (i64, i64),
) -> Result<Vec<ParkedDelivery>, TxError> {
    let rows =
        query(on, PARKED, &[&now, &lanes.full, &each, &limit, &lanes.recovered, &after, &lanes.all]).await?;
    let parked = |row: &tokio_postgres::Row| ParkedDelivery {
        tenant_id: row.get(0),
        delivery_id: row.get(1),
        event_id: row.get(2),
        subscription_id: row.get(3),
        attempts: row.get(4),
        parked_at: row.get(5),
        event_type: row.get(6),
        envelope: row.get(7),
        traceparent: row.get(8),
        request_id: row.get(9),
    };
    Ok(rows.iter().map(parked).collect())
}

/// Marks deliveries as no longer parked.
pub(crate) async fn unpark(on: &impl GenericClient, queued: &[&ParkedDelivery]) -> Result<(), TxError> {
    let tenants = column(queued, |row| row.tenant_id);
    let ids = column(queued, |row| row.delivery_id);
    let since = column(queued, |row| row.parked_at);
    execute(on, UNPARK, &[&tenants, &ids, &since]).await.map(drop)
}

/// Parks pending deliveries that were due before `overdue`, because the queue has lost them. Returns their number, at most
/// `limit`.
pub(crate) async fn rescue(
    on: &impl GenericClient,
    now: DateTime<Utc>,
    overdue: DateTime<Utc>,
    limit: i64,
) -> Result<u64, TxError> {
    execute(on, RESCUE, &[&now, &overdue, &limit]).await
}

/// Counts pending and dead-lettered deliveries, from their indexes.
pub(crate) async fn count_unsettled(on: &impl GenericClient) -> Result<[(DeliveryState, i64); 2], TxError> {
    pair(on, OPEN, [DeliveryState::Pending, DeliveryState::DeadLettered]).await
}

/// Counts delivered and dropped deliveries with a scan of the whole table.
pub(crate) async fn count_settled(on: &impl GenericClient) -> Result<[(DeliveryState, i64); 2], TxError> {
    pair(on, ENDED, [DeliveryState::Delivered, DeliveryState::Dropped]).await
}

async fn pair(
    on: &impl GenericClient,
    sql: Sql,
    [first, second]: [DeliveryState; 2],
) -> Result<[(DeliveryState, i64); 2], TxError> {
    let rows = query(on, sql, &[]).await?;
    let counts = rows.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
    Ok([(first, counts.0), (second, counts.1)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::TimeDelta;

    fn row(delivery: u128) -> DeliveryRow {
        DeliveryRow {
            tenant_id: Uuid::nil(),
            delivery_id: Uuid::from_u128(delivery),
            event_id: Uuid::nil(),
            subscription_id: Uuid::nil(),
            state: DeliveryState::Delivered,
            attempts: 1,
            next_attempt_at: None,
            parked_at: None,
            parked_until: None,
        }
    }

    #[test]
    fn a_delivery_was_made_before_its_attempts() {
        let now = DateTime::UNIX_EPOCH + TimeDelta::days(1);
        let attempt = |delivery, seconds_before: i64| AttemptRow {
            tenant_id: Uuid::nil(),
            delivery_id: Uuid::from_u128(delivery),
            attempt: 1,
            at: now - TimeDelta::seconds(seconds_before),
            status: Some(204),
            error: None,
            response: None,
            duration_ms: 1,
        };
        // The clock of another machine may be ahead.
        let attempts = [attempt(2, 7), attempt(3, 1), attempt(3, 5), attempt(3, 2), attempt(4, -9)];
        let seconds_before =
            [1, 2, 3, 4, 5].map(|id| (now - creation_time(&row(id), &attempts, now)).num_seconds());
        assert_eq!(seconds_before, [0, 7, 5, 0, 0]);
    }
}
