//! What is only ever added to: timeline, inbox, notifications, outbound events.

use chrono::{DateTime, Utc};
use common::event::OutboundType;
use common::model::{ClientId, LeadId};
use common::trace::Trail;
use serde_json::Value;
use uuid::Uuid;

/// One entry of a client's timeline (D14).
#[derive(Clone, Debug)]
pub struct TimelineEntry {
    /// Grows with time.
    pub entry_id: Uuid,
    /// The client.
    pub client_id: ClientId,
    /// The event.
    pub event_id: String,
    /// Its type's name.
    pub event_type: String,
    /// When it happened.
    pub occurred_at: DateTime<Utc>,
    /// Emitting system.
    pub origin: String,
    /// JSON text, as sent.
    pub payload: Option<String>,
}

/// What an inbox message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxKind {
    /// The customer's words.
    Message,
    /// What changed in the brief.
    Change,
    /// A corrected travel date.
    Correction,
}

impl InboxKind {
    /// The name shown and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Message => "message",
            Self::Change => "change",
            Self::Correction => "correction",
        }
    }
}

/// A message in an enquiry's inbox thread.
#[derive(Clone, Debug)]
pub struct InboxMessage {
    /// Grows with time.
    pub message_id: Uuid,
    /// The enquiry.
    pub lead_id: LeadId,
    /// When.
    pub at: DateTime<Utc>,
    /// What it is.
    pub kind: InboxKind,
    /// Its words.
    pub text: Option<String>,
    /// Before and after of what changed.
    pub changes: Option<Value>,
}

/// Why a member is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotificationKind {
    /// They own the enquiry now.
    LeadAssigned,
    /// The traveller changed the trip.
    TripChanged,
    /// Less credit was taken than counted as paid.
    CreditShortfall,
}

impl NotificationKind {
    /// The name shown and stored.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::LeadAssigned => "lead_assigned",
            Self::TripChanged => "trip_changed",
            Self::CreditShortfall => "credit_shortfall",
        }
    }
}

/// What a member is told.
#[derive(Clone, Debug)]
pub struct Notification {
    /// Grows with time.
    pub id: Uuid,
    /// When.
    pub at: DateTime<Utc>,
    /// Email of the member.
    pub to: String,
    /// Why.
    pub kind: NotificationKind,
    /// About which enquiry.
    pub lead_id: Option<LeadId>,
    /// In words, without a person's data beyond the enquiry number.
    pub text: String,
}

/// An event for subscribers, written in the transaction of what caused it.
#[derive(Clone, Debug)]
pub struct OutboundEvent {
    /// UUID, the same for all receivers and attempts.
    pub event_id: Uuid,
    /// What happened.
    pub event_type: OutboundType,
    /// The API key whose call caused it; `None` for the CRM's own acts (D16, D24).
    pub key_prefix: Option<String>,
    /// Emitting system (D24).
    pub origin: String,
    /// When it happened.
    pub occurred_at: DateTime<Utc>,
    /// The client it is about: becomes the envelope's `actor`.
    pub client_id: ClientId,
    /// A JSON object (D25).
    pub payload: Value,
    /// The body of the webhook, byte by byte as it will be signed; empty where the tenant has no subscription.
    pub envelope: String,
    /// The request that caused it, for traces.
    pub trail: Option<Trail>,
}
