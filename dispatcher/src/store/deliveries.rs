//! Deliveries: one event on its way to one subscription.

use super::{column, execute, query};
use chrono::{DateTime, Utc};
use common::db::TxError;
use common::message::DeliveryMeta;
use deadpool_postgres::GenericClient;
use std::collections::HashMap;
use uuid::Uuid;

pub(super) const KNOWN: &str = "
    -- deliveries.known
    SELECT d.delivery_id, d.state, d.attempts, d.attempts_before
    FROM unnest($1::uuid[], $2::uuid[]) AS asked (tenant_id, delivery_id)
    CROSS JOIN LATERAL (
        SELECT * FROM deliveries d
        WHERE d.tenant_id = asked.tenant_id AND d.delivery_id = asked.delivery_id LIMIT 1
    ) AS d";

// Makes the row of a delivery that none is there for yet, mostly in its final state: its first attempt has ended.
// What was delivered stays so, and an attempt that is on record isn't undone by a second one of its number.
pub(super) const CONCLUDE: &str = "
    -- deliveries.conclude
    INSERT INTO deliveries AS d (tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at,
                                 parked_at, parked_until, created_at)
    SELECT tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at, parked_at, parked_until, $10
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::smallint[], $7::timestamptz[],
                $8::timestamptz[], $9::timestamptz[])
         AS new (tenant_id, delivery_id, event_id, subscription_id, state, attempts, next_attempt_at, parked_at, parked_until)
    ORDER BY tenant_id, delivery_id
    ON CONFLICT (tenant_id, delivery_id) DO UPDATE
    SET state = excluded.state, attempts = greatest(d.attempts, excluded.attempts),
        next_attempt_at = excluded.next_attempt_at, parked_at = excluded.parked_at, parked_until = excluded.parked_until
    WHERE excluded.state = 'delivered'
       OR d.state = 'pending' AND (excluded.attempts > d.attempts
                                   OR excluded.attempts = d.attempts
                                      AND (excluded.state = 'dropped' OR excluded.parked_at IS NOT NULL))";

// Of each subscription what is due first, one subscription after the other from the given one on, so that none keeps
// the others waiting. Only subscriptions of which something is parked are visited: each step finds the next one in the
// index. What was parked for one while it was removed goes through the queue, too: there it is dropped.
pub(super) const PARKED: &str = "
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
          AND (d.parked_until <= $1 OR d.parked_until IS NULL OR s.subscription_id = ANY($5::uuid[]))
        ORDER BY d.next_attempt_at LIMIT $3::bigint
    ) AS d
    CROSS JOIN LATERAL (
        SELECT * FROM outbox o WHERE o.tenant_id = d.tenant_id AND o.event_id = d.event_id LIMIT 1
    ) AS o
    WHERE s.subscription_id <> ALL($2::uuid[])
      AND (s.paused_at IS NULL AND s.removed_at IS NULL OR s.removed_at > $1 - interval '1 hour')
    ORDER BY s.subscription_id
    LIMIT $4::bigint";

// Only what hasn't been parked anew since it was read. Rows are locked first and then updated where they are: an UPDATE
// that joins a list of keys may be planned to read the whole table for it.
pub(super) const UNPARK: &str = "
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

pub(super) const RESCUE: &str = "
    -- deliveries.rescue
    UPDATE deliveries SET parked_at = $1, next_attempt_at = $1
    WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM deliveries
        WHERE state = 'pending' AND next_attempt_at < $2 AND parked_at IS NULL
        ORDER BY next_attempt_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED
    ))";

pub(super) const OPEN: &str = "
    -- deliveries.open
    SELECT (SELECT count(*) FROM deliveries WHERE state = 'pending' AND parked_at IS NULL)
           + (SELECT count(*) FROM deliveries WHERE parked_at IS NOT NULL),
           (SELECT count(*) FROM deliveries WHERE state = 'dead')";

// Reads all of them.
pub(super) const ENDED: &str = "
    -- deliveries.ended
    SELECT count(*) FILTER (WHERE state = 'delivered'), count(*) FILTER (WHERE state = 'dropped') FROM deliveries";

/// What has become of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Attempts to come.
    Pending,
    /// A 2xx.
    Delivered,
    /// Attempts used up; stays until it is replayed.
    Dead,
    /// Its subscription was removed.
    Dropped,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Pending, Self::Delivered, Self::Dead, Self::Dropped];

    /// As stored; also the metric's label.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
            Self::Dropped => "dropped",
        }
    }

    fn parse(text: &str) -> Result<Self, TxError> {
        let known = Self::ALL.into_iter().find(|state| state.as_str() == text);
        known.ok_or_else(|| TxError::Abandoned(format!("unknown state of a delivery: {text:?}")))
    }
}

/// What is known of a delivery when a message for it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// What has become of it.
    pub state: State,
    /// Attempts made.
    pub attempts: i16,
    /// Of these, the ones made before the last replay.
    pub attempts_before: i16,
}

/// How a message ends.
#[derive(Clone, Debug)]
pub struct Conclusion {
    /// The agency.
    pub tenant_id: Uuid,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The outbound event.
    pub event_id: Uuid,
    /// Who it goes to.
    pub subscription_id: Uuid,
    /// What has become of it.
    pub state: State,
    /// Attempts made by now.
    pub attempts: i16,
    /// When the next is due.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Since when it waits in the database.
    pub parked_at: Option<DateTime<Utc>>,
    /// Until when its receiver is busy with others.
    pub parked_until: Option<DateTime<Utc>>,
}

impl Conclusion {
    /// What is known from a message alone: the attempt that it stands for isn't made.
    pub fn unchanged(meta: &DeliveryMeta) -> Self {
        Self {
            tenant_id: meta.tenant_id.0,
            delivery_id: meta.delivery_id,
            event_id: meta.event_id,
            subscription_id: meta.subscription_id,
            state: State::Pending,
            attempts: meta.attempt - 1,
            next_attempt_at: None,
            parked_at: None,
            parked_until: None,
        }
    }
}

/// A delivery that waits in the database, with its event.
#[derive(Clone, Debug)]
pub struct Parked {
    /// The agency.
    pub tenant_id: Uuid,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The outbound event.
    pub event_id: Uuid,
    /// Who it goes to.
    pub subscription_id: Uuid,
    /// Attempts made.
    pub attempts: i16,
    /// Since when it waits.
    pub parked_at: DateTime<Utc>,
    /// The event's type.
    pub event_type: String,
    /// The webhook's body.
    pub envelope: String,
    /// The place of what caused the event in its trace, where that is known.
    pub traceparent: Option<String>,
    /// The request that caused the event, where that is known.
    pub request_id: Option<Uuid>,
}

/// What is known of deliveries, given as agency and id.
pub async fn known(on: &impl GenericClient, asked: &[(Uuid, Uuid)]) -> Result<HashMap<Uuid, Known>, TxError> {
    let rows = query(on, KNOWN, &[&column(asked, |asked| asked.0), &column(asked, |asked| asked.1)]).await?;
    let known = |row: &tokio_postgres::Row| {
        let state = State::parse(row.get(1))?;
        Ok((row.get(0), Known { state, attempts: row.get(2), attempts_before: row.get(3) }))
    };
    rows.iter().map(known).collect()
}

/// Writes how messages ended.
pub(super) async fn conclude(
    on: &impl GenericClient,
    ends: &[&Conclusion],
    now: DateTime<Utc>,
) -> Result<(), TxError> {
    execute(
        on,
        CONCLUDE,
        &[
            &column(ends, |end| end.tenant_id),
            &column(ends, |end| end.delivery_id),
            &column(ends, |end| end.event_id),
            &column(ends, |end| end.subscription_id),
            &column(ends, |end| end.state.as_str()),
            &column(ends, |end| end.attempts),
            &column(ends, |end| end.next_attempt_at),
            &column(ends, |end| end.parked_at),
            &column(ends, |end| end.parked_until),
            &now,
        ],
    )
    .await
    .map(drop)
}

/// Subscriptions whose lanes are not as usual.
#[derive(Clone, Copy, Debug)]
pub struct Lanes<'a> {
    /// They get nothing.
    pub full: &'a [Uuid],
    /// They get what was put off, too.
    pub recovered: &'a [Uuid],
}

/// Deliveries that wait in the database and are due, of the subscriptions `after` this one, `each` of a subscription and
/// `limit` in all at most.
pub async fn parked(
    on: &impl GenericClient,
    now: DateTime<Utc>,
    lanes: Lanes<'_>,
    after: Uuid,
    (each, limit): (i64, i64),
) -> Result<Vec<Parked>, TxError> {
    let rows = query(on, PARKED, &[&now, &lanes.full, &each, &limit, &lanes.recovered, &after]).await?;
    let parked = |row: &tokio_postgres::Row| Parked {
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

/// Says that deliveries are in the queue now.
pub async fn unpark(on: &impl GenericClient, queued: &[&Parked]) -> Result<(), TxError> {
    let tenants = column(queued, |row| row.tenant_id);
    let ids = column(queued, |row| row.delivery_id);
    let since = column(queued, |row| row.parked_at);
    execute(on, UNPARK, &[&tenants, &ids, &since]).await.map(drop)
}

/// Parks what was due before `overdue` and isn't: the queue has lost it. Gives how many, `limit` at most.
pub async fn rescue(
    on: &impl GenericClient,
    now: DateTime<Utc>,
    overdue: DateTime<Utc>,
    limit: i64,
) -> Result<u64, TxError> {
    execute(on, RESCUE, &[&now, &overdue, &limit]).await
}

/// Deliveries that are pending and dead, from their indexes.
pub async fn count_open(on: &impl GenericClient) -> Result<[(State, i64); 2], TxError> {
    pair(on, OPEN, [State::Pending, State::Dead]).await
}

/// Deliveries that are delivered and dropped. Reads them all.
pub async fn count_ended(on: &impl GenericClient) -> Result<[(State, i64); 2], TxError> {
    pair(on, ENDED, [State::Delivered, State::Dropped]).await
}

async fn pair(
    on: &impl GenericClient,
    sql: &str,
    [first, second]: [State; 2],
) -> Result<[(State, i64); 2], TxError> {
    let rows = query(on, sql, &[]).await?;
    let counts = rows.first().map_or((0, 0), |row| (row.get(0), row.get(1)));
    Ok([(first, counts.0), (second, counts.1)])
}
