//! Append-only tables: timeline, inbox, notifications, outbox.

use super::{States, rows, write_rows};
use chrono::{DateTime, Utc};
use common::db::Query;
use serde_json::Value;

common::statements! {
    // One `unnest` a column, not one of all columns: that would be ready with all rows before it returns the first.
    const TIMELINE = "
    -- timeline.insert
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin, actor_key, payload)
    SELECT unnest($1::uuid[]), unnest($2::uuid[]), unnest($3::uuid[]), unnest($4::text[]), unnest($5::text[]),
           unnest($6::timestamptz[]), unnest($7::text[]), unnest($8::text[]), unnest($9::text[]::json[])";

    const INBOX = "
    -- inbox.insert
    INSERT INTO inbox_messages (tenant_id, lead_id, message_id, at, kind, text, changes)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::text[], $6::text[], $7::text[]::json[])";

    const NOTIFICATIONS = "
    -- notifications.insert
    INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, lead_id, text)
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::timestamptz[], $4::text[], $5::text[], $6::uuid[], $7::text[])";

    const OUTBOX = "
    -- outbox.insert
    WITH new AS (
        INSERT INTO outbox (tenant_id, event_id, event_type, key_prefix, origin, envelope, traceparent, request_id, created_at)
        SELECT *, $9 FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[]::json[], $7::text[],
                                 $8::uuid[])
        RETURNING tenant_id, event_id
    )
    INSERT INTO outbox_pending (tenant_id, event_id, created_at) SELECT tenant_id, event_id, $9 FROM new";
}

/// Writes new timeline entries.
pub(super) fn timeline(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.timeline.iter());
    write_rows!(TIMELINE, new, |tenant, entry| [
        tenant,
        entry.client_id.0,
        entry.entry_id,
        entry.event_id.as_str(),
        entry.event_type.as_str(),
        entry.occurred_at,
        entry.origin.as_str(),
        entry.actor_key.as_deref(),
        entry.payload.as_deref(),
    ])
}

/// Writes new inbox messages.
pub(super) fn inbox(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.inbox.iter());
    write_rows!(INBOX, new, |tenant, message| [
        tenant,
        message.lead_id.0,
        message.message_id,
        message.at,
        message.kind.as_str(),
        message.text.as_deref(),
        message.changes.as_ref().map(Value::to_string),
    ])
}

/// Inserts the notifications of members.
pub(super) fn notifications(states: &States) -> Option<Query<'_>> {
    let new = rows(states, |state| state.notifications.iter());
    write_rows!(NOTIFICATIONS, new, |tenant, notification| [
        tenant,
        notification.id,
        notification.at,
        notification.to.as_str(),
        notification.kind.as_str(),
        notification.lead_id.map(|id| id.0),
        notification.text.as_str(),
    ])
}

/// Inserts new outbound events of the tenants that have subscriptions. Other tenants have no receiver.
pub(super) fn outbox(states: &States, now: DateTime<Utc>) -> Option<Query<'_>> {
    let new = rows(states, |state| state.emitted());
    write_rows!(
        OUTBOX,
        new,
        |tenant, event| [
            tenant,
            event.event_id,
            event.event_type.as_str(),
            event.key_prefix.as_deref(),
            event.origin.as_str(),
            event.envelope.as_str(),
            event.request_context.map(|request_context| request_context.context.to_header()),
            event.request_context.map(|request_context| request_context.request_id),
        ],
        now
    )
}
