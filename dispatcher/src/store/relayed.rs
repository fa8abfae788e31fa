//! Events of the outbox that were relayed, with the subscriptions of their tenants.

use super::query;
use crate::fan_out::{OutboxEvent, Subscription, SubscriptionKey};
use chrono::{DateTime, Utc};
use common::db::{TxError, column};
use deadpool_postgres::GenericClient;
use std::collections::HashSet;
use tokio_postgres::Row;
use uuid::Uuid;

common::statements! {
    // One snapshot, as for pending events: two kinds of rows, which event_id distinguishes. Envelopes are not read.
    const PAGE = "
    -- outbox.relayed_page
    WITH page AS MATERIALIZED (
        SELECT tenant_id, event_id, event_type, key_prefix, origin, created_at, subscription_id
        FROM outbox WHERE relayed_at IS NOT NULL AND event_id > $1 ORDER BY event_id LIMIT $2::bigint
    )
    SELECT tenant_id, event_id, key_prefix, origin, created_at, event_type, subscription_id,
           NULL::text[] AS event_types
    FROM page
    UNION ALL
    SELECT p.tenant_id, NULL, s.key_prefix, k.origin, s.wants_since, NULL, s.subscription_id, s.event_types
    FROM (SELECT DISTINCT tenant_id FROM page) AS p
    CROSS JOIN LATERAL (
        SELECT s.subscription_id, s.key_prefix, s.event_types,
               GREATEST(s.created_at, s.event_types_changed_at) AS wants_since
        FROM subscriptions s WHERE s.tenant_id = p.tenant_id AND s.removed_at IS NULL OFFSET 0
    ) AS s
    LEFT JOIN LATERAL (
        SELECT k.origin FROM api_keys k
        WHERE k.prefix = s.key_prefix AND k.tenant_id IS NOT DISTINCT FROM p.tenant_id LIMIT 1
    ) AS k ON true";

    const EXISTING = "
    -- deliveries.of_relayed
    SELECT d.delivery_id
    FROM unnest($1::uuid[], $2::uuid[]) AS expected (tenant_id, delivery_id)
    CROSS JOIN LATERAL (
        SELECT delivery_id FROM deliveries d
        WHERE d.tenant_id = expected.tenant_id AND d.delivery_id = expected.delivery_id LIMIT 1
    ) AS d";
}

/// An event whose relay mark is committed.
#[derive(Clone, Debug)]
pub(crate) struct RelayedEvent {
    /// Without its envelope.
    pub event: OutboxEvent,
    /// When its cause was applied.
    pub created_at: DateTime<Utc>,
}

/// Relayed events with the subscriptions of their tenants.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelayedPage {
    /// By id, oldest first.
    pub events: Vec<RelayedEvent>,
    /// Those that were not removed, each with the time since which it wants its event types: of its creation, or of their last
    /// change.
    pub subscriptions: Vec<(Subscription, DateTime<Utc>)>,
}

/// Loads the oldest relayed events `after` that id, at most `limit`.
pub(crate) async fn load_relayed(
    on: &impl GenericClient,
    after: Uuid,
    limit: i64,
) -> Result<RelayedPage, TxError> {
    let mut page = RelayedPage::default();
    for row in query(on, PAGE, &[&after, &limit]).await? {
        match row.get(1) {
            Some(event_id) => page.events.push(event(&row, event_id)),
            None => page.subscriptions.push((subscription(&row), row.get(4))),
        }
    }
    page.events.sort_unstable_by_key(|relayed| relayed.event.event_id);
    Ok(page)
}

/// Returns the deliveries that exist, of those given by tenant and id.
pub(crate) async fn find_existing(
    on: &impl GenericClient,
    expected: &[(Uuid, Uuid)],
) -> Result<HashSet<Uuid>, TxError> {
    let keys = (column(expected, |one| one.0), column(expected, |one| one.1));
    let rows = query(on, EXISTING, &[&keys.0, &keys.1]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

fn event(row: &Row, event_id: Uuid) -> RelayedEvent {
    let event = OutboxEvent {
        tenant_id: row.get(0),
        event_id,
        event_type: row.get(5),
        key_prefix: row.get(2),
        origin: row.get(3),
        envelope: String::new(),
        traceparent: None,
        request_id: None,
        only_for: row.get(6),
    };
    RelayedEvent { event, created_at: row.get(4) }
}

fn subscription(row: &Row) -> Subscription {
    Subscription {
        tenant_id: row.get(0),
        id: row.get(6),
        key: row.get::<_, Option<String>>(2).map(|prefix| SubscriptionKey { prefix, origin: row.get(3) }),
        event_types: row.get(7),
        is_paused: false,
    }
}
