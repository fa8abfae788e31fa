//! The outbox: pending events and their subscribers.

use super::subscriptions::Subscriber;
use super::{execute, query};
use crate::fan_out::{OutboxEvent, Subscription, SubscriptionKey};
use crate::store::Target;
use chrono::{DateTime, Utc};
use common::db::{Query, TxError};
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    // One snapshot returns the oldest pending events and the subscriptions of their tenants, each once: two kinds of rows, which
    // event_id distinguishes. Events in flight in this program are excluded.
    const PENDING = "
    -- outbox.pending
    WITH pending AS MATERIALIZED (
        SELECT tenant_id, event_id, event_type, key_prefix, origin, envelope, traceparent, request_id, subscription_id
        FROM outbox WHERE relayed_at IS NULL AND event_id <> ALL($2::uuid[])
        ORDER BY event_id LIMIT $1::bigint
    )
    SELECT tenant_id, event_id, key_prefix, origin, event_type, envelope::text, traceparent, request_id,
           NULL::text[] AS event_types, NULL::bytea AS secret_sealed, NULL::bytea AS old_secret_sealed,
           false AS is_paused, NULL::bytea AS url_sealed, subscription_id AS only_for
    FROM pending
    UNION ALL
    SELECT p.tenant_id, NULL, s.key_prefix, k.origin, t.slug, NULL, NULL, s.subscription_id,
           s.event_types, s.secret_sealed, s.old_secret_sealed, s.is_paused, s.url_sealed, NULL
    FROM (SELECT DISTINCT tenant_id FROM pending) AS p
    CROSS JOIN LATERAL (SELECT slug FROM tenants t WHERE t.tenant_id = p.tenant_id LIMIT 1) AS t
    CROSS JOIN LATERAL (
        SELECT s.subscription_id, s.key_prefix, s.event_types, s.secret_sealed,
               CASE WHEN s.old_secret_until > $3::timestamptz THEN s.old_secret_sealed END AS old_secret_sealed,
               s.paused_at IS NOT NULL AS is_paused, s.url_sealed
        FROM subscriptions s WHERE s.tenant_id = p.tenant_id AND s.removed_at IS NULL OFFSET 0
    ) AS s
    LEFT JOIN LATERAL (
        SELECT k.origin FROM api_keys k
        WHERE k.prefix = s.key_prefix AND k.tenant_id IS NOT DISTINCT FROM p.tenant_id LIMIT 1
    ) AS k ON true";

    // Uses the index of pending events. An event's id is unique across tenants (UUIDv7).
    const RELAYED = "
    -- outbox.relayed
    UPDATE outbox SET relayed_at = $2 WHERE relayed_at IS NULL AND event_id = ANY($1::uuid[])";

    // Reads a bounded number of rows: beyond that the exact number does not matter.
    const WAITING = "
    -- outbox.waiting
    SELECT count(*), min(created_at) FROM (
        SELECT created_at FROM outbox WHERE relayed_at IS NULL ORDER BY event_id LIMIT 100000
    ) AS waiting";
}

/// Pending events with the subscriptions of their tenants.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingEvents {
    /// Oldest first.
    pub events: Vec<OutboxEvent>,
    /// Without those that were removed.
    pub subscribers: Vec<Subscriber>,
}

/// Number and age of pending events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutboxBacklog {
    /// Events, counted up to 100,000.
    pub events: i64,
    /// When the oldest of them was written.
    pub oldest: Option<DateTime<Utc>>,
}

/// Loads the oldest events that are not relayed, at most `limit`, without those `in_flight`.
pub(crate) async fn load_pending(
    on: &impl GenericClient,
    limit: i64,
    in_flight: &[Uuid],
    now: DateTime<Utc>,
) -> Result<PendingEvents, TxError> {
    let mut pending = PendingEvents::default();
    for row in query(on, PENDING, &[&limit, &in_flight, &now]).await? {
        match row.get(1) {
            Some(event_id) => pending.events.push(event(&row, event_id)),
            None => pending.subscribers.push(subscriber(&row)),
        }
    }
    pending.events.sort_unstable_by_key(|event| event.event_id);
    Ok(pending)
}

fn event(row: &Row, event_id: Uuid) -> OutboxEvent {
    OutboxEvent {
        tenant_id: row.get(0),
        event_id,
        key_prefix: row.get(2),
        origin: row.get(3),
        event_type: row.get(4),
        envelope: row.get(5),
        traceparent: row.get(6),
        request_id: row.get(7),
        only_for: row.get(13),
    }
}

fn subscriber(row: &Row) -> Subscriber {
    let (tenant_id, is_paused) = (row.get(0), row.get(11));
    let (current, old): (Vec<u8>, Option<Vec<u8>>) = (row.get(9), row.get(10));
    let subscription = Subscription {
        tenant_id,
        id: row.get(7),
        key: row.get::<_, Option<String>>(2).map(|prefix| SubscriptionKey { prefix, origin: row.get(3) }),
        event_types: row.get(8),
        is_paused,
    };
    let target = Target {
        tenant_id,
        slug: row.get(4),
        url_sealed: row.get(12),
        sealed: std::iter::once(current).chain(old).collect(),
        is_paused,
        is_removed: false,
    };
    Subscriber { subscription, target }
}

/// The statement that marks events as relayed, for a pipelined transaction.
pub(super) fn mark_relayed_query(events: &[Uuid], now: DateTime<Utc>) -> Query<'_> {
    Query::new(RELAYED).bind(events).bind(now)
}

/// Marks events as relayed, in a transaction of its own.
pub(super) async fn mark_relayed(
    on: &impl GenericClient,
    events: &[Uuid],
    now: DateTime<Utc>,
) -> Result<(), TxError> {
    execute(on, RELAYED, &[&events, &now]).await.map(drop)
}

/// Counts pending events and finds the oldest.
pub(crate) async fn measure_backlog(on: &impl GenericClient) -> Result<OutboxBacklog, TxError> {
    let rows = query(on, WAITING, &[]).await?;
    let waiting = rows.first().map(|row| OutboxBacklog { events: row.get(0), oldest: row.get(1) });
    Ok(waiting.unwrap_or(OutboxBacklog { events: 0, oldest: None }))
}
