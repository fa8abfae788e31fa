//! The records as rules see them. Their columns are described in the migrations.

use chrono::{DateTime, Utc};
use common::event::OutboundType;
use common::model::{
    Brief, ClientId, DiscoveryId, Email, LeadId, Phone, ProposalId, Stage, TenantId, TripId,
};
use common::record::Traveler;
use common::trace::Trail;
use common::view::TravelerView;
use serde_json::Value;
use uuid::Uuid;

/// An agency, as far as rules care.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Its id.
    pub id: TenantId,
    /// Its slug.
    pub slug: String,
    /// First part of its enquiry numbers.
    pub enquiry_prefix: String,
    /// Whether Traveller Discovery is on (D15a).
    pub discovery_enabled: bool,
}

/// A member of the agency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Lower case.
    pub email: String,
    /// Full name.
    pub name: String,
}

/// What the ledger keeps of an applied event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// The event's id.
    pub event_id: String,
    /// Its type's name.
    pub event_type: String,
    /// The key that sent it.
    pub key_prefix: String,
    /// The message that applied it.
    pub request_id: Uuid,
    /// Its place in that message's batch.
    pub ordinal: i16,
    /// First result: the client.
    pub client_id: Option<ClientId>,
    /// First result: the enquiry.
    pub lead_id: Option<LeadId>,
    /// First result: the trip.
    pub trip_id: Option<TripId>,
    /// First result: the discovery record.
    pub discovery_id: Option<DiscoveryId>,
    /// First result: the warnings.
    pub warnings: Vec<String>,
}

/// Whether a client is a person or a company account (D13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientType {
    /// A traveller.
    Individual,
    /// A company account.
    Company,
}

impl ClientType {
    /// The name on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Individual => "individual",
            Self::Company => "company",
        }
    }
}

/// A client.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Its id.
    pub id: ClientId,
    /// Full name.
    pub name: String,
    /// Strongest identity.
    pub email: Option<Email>,
    /// Weakest identity.
    pub phone: Option<Phone>,
    /// Label; the account's name for its people.
    pub company: Option<String>,
    /// Caller's own id.
    pub external_id: Option<String>,
    /// Marketing consent.
    pub marketing_opt_in: bool,
    /// Person or company account.
    pub client_type: ClientType,
    /// Mail domain of a company account.
    pub company_domain: Option<String>,
    /// The company account a person belongs to.
    pub account_id: Option<ClientId>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Its version (D19).
    pub updated_at: DateTime<Utc>,
}

/// The roster of a client, in its order.
#[derive(Clone, Debug, PartialEq)]
pub struct Roster {
    /// The client.
    pub client_id: ClientId,
    /// Its travelers, as they are shown.
    pub travelers: Vec<TravelerView>,
}

impl Roster {
    /// What a body's travelers are stored as.
    pub fn from_body(sent: &[Traveler]) -> Vec<TravelerView> {
        let stored = |traveler: &Traveler| TravelerView {
            name: traveler.name.as_str().to_owned(),
            kind: traveler.kind.as_str().to_owned(),
            age: traveler.age.get().and_then(|age| i16::try_from(age.get()).ok()),
            email: traveler.email.get().map(|email| email.as_str().to_owned()),
            phone: traveler.phone.get().map(|phone| phone.as_str().to_owned()),
        };
        sent.iter().map(stored).collect()
    }
}

/// A colleague on a company account.
#[derive(Clone, Debug, PartialEq)]
pub struct AccountContact {
    /// The account.
    pub account_id: ClientId,
    /// The colleague's address.
    pub email: Email,
    /// Full name.
    pub name: Option<String>,
    /// As sent.
    pub phone: Option<Phone>,
    /// The colleague's own client, where there is one.
    pub client_id: Option<ClientId>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// An enquiry.
#[derive(Clone, Debug, PartialEq)]
pub struct Lead {
    /// Its id.
    pub id: LeadId,
    /// Whose it is.
    pub client_id: ClientId,
    /// `<prefix>-<year>-<six digits>`.
    pub enquiry_number: String,
    /// Caller's own id.
    pub external_id: Option<String>,
    /// Title advisors see.
    pub title: String,
    /// Its stage, and its trip's.
    pub stage: Stage,
    /// Why it was lost.
    pub lost_reason: Option<String>,
    /// Flag for follow-up.
    pub follow_up: bool,
    /// Email of the advisor.
    pub owner: Option<String>,
    /// The brief while there is no trip (D20).
    pub brief: Brief,
    /// The marketing block, a JSON object.
    pub attribution: Option<Value>,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// Its version (D19).
    pub updated_at: DateTime<Utc>,
}

/// A trip workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Trip {
    /// Its id.
    pub id: TripId,
    /// Its enquiry.
    pub lead_id: LeadId,
    /// Title.
    pub title: String,
    /// The brief (D20).
    pub brief: Brief,
    /// When it was opened.
    pub created_at: DateTime<Utc>,
    /// Its version (D19).
    pub updated_at: DateTime<Utc>,
}

/// Where a proposal stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalStatus {
    /// Being written.
    Draft,
    /// Sent to the traveller.
    Sent,
    /// Opened by the traveller.
    Viewed,
    /// Thrown away by the advisor.
    Discarded,
}

impl ProposalStatus {
    /// The status of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Draft, Self::Sent, Self::Viewed, Self::Discarded]
            .into_iter()
            .find(|status| status.as_str() == name)
    }

    /// The name on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Sent => "sent",
            Self::Viewed => "viewed",
            Self::Discarded => "discarded",
        }
    }
}

/// A proposal.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    /// Its id.
    pub id: ProposalId,
    /// Its trip.
    pub trip_id: TripId,
    /// Where it stands.
    pub status: ProposalStatus,
    /// Its title, once it was sent.
    pub title: Option<String>,
    /// Where the traveller opens it.
    pub url: Option<String>,
    /// How it was sent.
    pub channel: Option<String>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// When it was last sent.
    pub sent_at: Option<DateTime<Utc>>,
    /// When the traveller opened what was last sent.
    pub viewed_at: Option<DateTime<Utc>>,
}

impl Proposal {
    /// The draft that a trip opens with (D20).
    pub const fn draft(id: ProposalId, trip_id: TripId, now: DateTime<Utc>) -> Self {
        Self {
            id,
            trip_id,
            status: ProposalStatus::Draft,
            title: None,
            url: None,
            channel: None,
            created_at: now,
            sent_at: None,
            viewed_at: None,
        }
    }
}

/// The itinerary that a proposal holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Itinerary {
    /// The proposal.
    pub proposal_id: ProposalId,
    /// JSON text, as sent.
    pub snapshot: String,
    /// When it was stored.
    pub updated_at: DateTime<Utc>,
}

/// Whether the credit that an invoice counts as paid was really taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreditState {
    /// No credit is used.
    None,
    /// Used, not yet confirmed.
    Pending,
    /// Confirmed.
    Confirmed,
}

impl CreditState {
    /// The name on the wire and in the database.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
        }
    }
}

/// An amount of money in hundredths of the major unit, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Money(pub i64);

/// A booking and what is owed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Invoice {
    /// Identifies the booking within the agency.
    pub booking_ref: String,
    /// The enquiry.
    pub lead_id: LeadId,
    /// Its trip.
    pub trip_id: Option<TripId>,
    /// Its client.
    pub client_id: ClientId,
    /// Booking amount.
    pub amount: Option<Money>,
    /// ISO 4217 code of all amounts.
    pub currency: Option<String>,
    /// Credit counted as paid.
    pub credit_used: Option<Money>,
    /// Credit really taken.
    pub credit_applied: Option<Money>,
    /// Where the credit stands.
    pub credit_state: CreditState,
    /// Reopened difference.
    pub balance_due: Money,
    /// When the booking was cancelled.
    pub cancelled_at: Option<DateTime<Utc>>,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// A trip discovery record.
#[derive(Clone, Debug, PartialEq)]
pub struct Discovery {
    /// Its id.
    pub id: DiscoveryId,
    /// The traveller.
    pub client_id: ClientId,
    /// The enquiry it is about; one record for an enquiry.
    pub lead_id: LeadId,
    /// A JSON object of the fields known.
    pub discovery: Value,
    /// When it was made.
    pub created_at: DateTime<Utc>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// What holds for a traveller beyond one trip.
#[derive(Clone, Debug, PartialEq)]
pub struct TravellerProfile {
    /// The traveller.
    pub client_id: ClientId,
    /// A JSON object: constraints, styleDefaults.
    pub profile: Value,
    /// Free text.
    pub essence: Option<String>,
    /// Last change.
    pub updated_at: DateTime<Utc>,
}

/// Corporate credit shown for a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Credit {
    /// The client.
    pub client_id: ClientId,
    /// When it was so; the newest wins (D15b).
    pub as_of: DateTime<Utc>,
    /// The employee's membership.
    pub membership_id: Option<String>,
    /// The employer.
    pub corporate_name: Option<String>,
    /// Hundredths of a rupee.
    pub available_paise: Option<i64>,
    /// Hundredths of a rupee.
    pub granted_paise: Option<i64>,
    /// 0 to 100.
    pub redeemable_percent: Option<f64>,
}

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
    /// The request that caused it, for traces.
    pub trail: Option<Trail>,
}
