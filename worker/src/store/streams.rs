//! What is only ever appended: timeline, inbox, notifications, outbox.

use super::{States, Wanted, query, write_rows};
use crate::state::OutboundEvent;
use chrono::{DateTime, Utc};
use common::clock;
use common::db::TxError;
use deadpool_postgres::Transaction;
use serde_json::{Value, json};
use std::collections::HashSet;
use uuid::Uuid;

pub(super) const TIMELINE: &str = "
    -- timeline.insert
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload)
    SELECT tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload::json
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::text[])
         AS new (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, payload)";

pub(super) const INBOX: &str = "
    -- inbox.insert
    INSERT INTO inbox_messages (tenant_id, lead_id, message_id, at, kind, text, changes)
    SELECT tenant_id, lead_id, message_id, at, kind, text, changes::json
    FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[])
         AS new (tenant_id, lead_id, message_id, at, kind, text, changes)";

pub(super) const NOTIFICATIONS: &str = "
    -- notifications.insert
    INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, lead_id, text)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::uuid[], $7::text[])";

pub(super) const OUTBOX: &str = "
    -- outbox.insert
    INSERT INTO outbox (tenant_id, event_id, event_type, key_prefix, origin, envelope, traceparent, request_id, created_at)
    SELECT tenant_id, event_id, event_type, key_prefix, origin, envelope::json, traceparent, request_id, $9
    FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[])
         AS new (tenant_id, event_id, event_type, key_prefix, origin, envelope, traceparent, request_id)";

pub(super) const SUBSCRIBED: &str = "
    -- subscriptions.subscribed
    SELECT DISTINCT tenant_id FROM subscriptions WHERE tenant_id = ANY($1) AND removed_at IS NULL";

/// Which agencies have a subscription. For the others there is nobody to tell, and nothing is written to the outbox.
pub(super) async fn subscribed(tx: &Transaction<'_>, wanted: &Wanted) -> Result<HashSet<Uuid>, TxError> {
    let tenants: Vec<Uuid> = wanted.tenants.iter().copied().collect();
    let rows = query(tx, SUBSCRIBED, &[&tenants]).await?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}

/// Writes new timeline entries.
pub(super) async fn timeline(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let new = super::rows(states, |state| state.timeline.iter());
    write_rows!(tx, TIMELINE, new, |entry| [
        entry.tenant,
        entry.client_id.0,
        entry.entry_id,
        entry.event_id.as_str(),
        entry.event_type.as_str(),
        entry.occurred_at,
        entry.origin.as_str(),
        entry.payload.as_deref(),
    ])
}

/// Writes new inbox messages.
pub(super) async fn inbox(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let new = super::rows(states, |state| state.inbox.iter());
    write_rows!(tx, INBOX, new, |message| [
        message.tenant,
        message.lead_id.0,
        message.message_id,
        message.at,
        message.kind.as_str(),
        message.text.as_deref(),
        message.changes.as_ref().map(Value::to_string),
    ])
}

/// Writes new notifications.
pub(super) async fn notifications(tx: &Transaction<'_>, states: &States) -> Result<(), TxError> {
    let new = super::rows(states, |state| state.notifications.iter());
    write_rows!(tx, NOTIFICATIONS, new, |notification| [
        notification.tenant,
        notification.id,
        notification.at,
        notification.to.as_str(),
        notification.kind.as_str(),
        notification.lead_id.map(|id| id.0),
        notification.text.as_str(),
    ])
}

/// Writes new outbound events of the agencies that have subscribers; whether there were any.
pub(super) async fn outbox(
    tx: &Transaction<'_>,
    states: &States,
    subscribed: &HashSet<Uuid>,
    now: DateTime<Utc>,
) -> Result<bool, TxError> {
    let mut new = super::rows(states, |state| state.outbox.iter());
    new.retain(|event| subscribed.contains(&event.tenant));
    write_rows!(
        tx,
        OUTBOX,
        new,
        |event| [
            event.tenant,
            event.event_id,
            event.event_type.as_str(),
            event.key_prefix.as_deref(),
            event.origin.as_str(),
            envelope(states, event.tenant, event),
            event.trail.map(|trail| trail.context.to_header()),
            event.trail.map(|trail| trail.request_id),
        ],
        now
    )?;
    Ok(!new.is_empty())
}

/// The body of the webhook: the envelope of the specification, its actor the client.
fn envelope(states: &States, tenant: Uuid, event: &OutboundEvent) -> String {
    let state = &states[&common::model::TenantId(tenant)];
    let mut actor = json!({"type": "contact"});
    if let Some(client) = state.client(event.client_id) {
        actor["name"] = client.name.as_str().into();
        let facts = [
            ("email", client.email.as_ref().map(common::model::Email::as_str)),
            ("phone", client.phone.as_ref().map(common::model::Phone::as_str)),
            ("externalId", client.external_id.as_deref()),
        ];
        for (name, fact) in facts {
            if let Some(fact) = fact {
                actor[name] = fact.into();
            }
        }
    }
    json!({
        "specVersion": "1.0",
        "eventId": event.event_id,
        "eventType": event.event_type.as_str(),
        "occurredAt": clock::to_text(event.occurred_at),
        "tenant": state.tenant.slug,
        "origin": event.origin,
        "actor": actor,
        "payload": event.payload,
    })
    .to_string()
}
