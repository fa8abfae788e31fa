//! Append-only records: timeline, inbox, notifications, outbound events.

use chrono::{DateTime, Utc};
use common::event::OutboundType;
use common::model::{ClientId, LeadId};
use common::trace::RequestContext;
use serde_json::Value;
use uuid::Uuid;

/// One entry of a client's timeline (D14).
#[derive(Clone, Debug)]
pub(crate) struct TimelineEntry {
    /// UUIDv7: entries are sorted by it.
    pub(crate) entry_id: Uuid,
    pub(crate) client_id: ClientId,
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) occurred_at: DateTime<Utc>,
    /// The system that emitted the event.
    pub(crate) origin: String,
    /// The actor's email in its compared form.
    pub(crate) actor_key: Option<String>,
    /// JSON text, as sent.
    pub(crate) payload: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InboxKind {
    /// A message that the customer wrote.
    Message,
    /// A change of the brief.
    Change,
    /// A correction of the travel dates.
    Correction,
}

impl InboxKind {
    /// The value in the API and in the database.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Change => "change",
            Self::Correction => "correction",
        }
    }
}

/// A message in a lead's inbox thread.
#[derive(Clone, Debug)]
pub(crate) struct InboxMessage {
    /// UUIDv7: messages are sorted by it.
    pub(crate) message_id: Uuid,
    pub(crate) lead_id: LeadId,
    pub(crate) at: DateTime<Utc>,
    pub(crate) kind: InboxKind,
    pub(crate) text: Option<String>,
    /// A JSON object: each changed field with its old and new value.
    pub(crate) changes: Option<Value>,
}

/// Why a member is notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotificationKind {
    /// They have become the owner of a lead.
    LeadAssigned,
    /// The traveler changed the trip of their lead.
    TripChanged,
    /// Less credit was taken than the invoice counted as paid.
    CreditShortfall,
}

impl NotificationKind {
    /// The value in the API and in the database.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::LeadAssigned => "lead_assigned",
            Self::TripChanged => "trip_changed",
            Self::CreditShortfall => "credit_shortfall",
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Notification {
    /// UUIDv7: notifications are sorted by it.
    pub(crate) id: Uuid,
    pub(crate) at: DateTime<Utc>,
    /// Lower-case email of the member.
    pub(crate) to: String,
    pub(crate) kind: NotificationKind,
    pub(crate) lead_id: Option<LeadId>,
    /// The message to the member. It contains no personal data beyond the enquiry number.
    pub(crate) text: String,
}

/// An event for subscribers, written in the transaction of its cause.
#[derive(Clone, Debug)]
pub(crate) struct OutboundEvent {
    /// UUID, the same for all receivers and attempts.
    pub(crate) event_id: Uuid,
    pub(crate) event_type: OutboundType,
    /// Prefix of the API key whose call caused it; `None` for actions of the CRM itself (D16, D24).
    pub(crate) key_prefix: Option<String>,
    /// The system that emitted it (D24).
    pub(crate) origin: String,
    pub(crate) occurred_at: DateTime<Utc>,
    /// The client it is about: becomes the envelope's `actor`.
    pub(crate) client_id: ClientId,
    /// A JSON object (D25).
    pub(crate) payload: Value,
    /// The body of the webhook, byte by byte as it will be signed; empty if the tenant has no subscription.
    pub(crate) envelope: String,
    /// The request that caused it, for traces.
    pub(crate) request_context: Option<RequestContext>,
}
