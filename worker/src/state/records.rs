//! The records as rules see them. The migrations document their columns.

mod streams;

pub(crate) use streams::{InboxKind, InboxMessage, Notification, NotificationKind, OutboundEvent, TimelineEntry};

use chrono::{DateTime, Utc};
use common::model::{Brief, ClientId, DiscoveryId, Email, LeadId, Phone, ProposalId, Stage, TenantId, TripId};
use common::record::Traveler;
use common::view::TravelerView;
use serde_json::Value;
use uuid::Uuid;

common::named! {
    /// Whether a client is a person or a company account (D13). Names are those in the API and in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ClientType {
        /// A person who travels.
        Individual = "individual",
        /// The account of a company, found by its mail domain.
        Company = "company",
    }
}

/// A client as the rules see it: a person or a company account.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) name: String,
    /// The identity that matching tries first (D10).
    pub(crate) email: Option<Email>,
    /// The identity that matching tries last (D10); clients may share it.
    pub(crate) phone: Option<Phone>,
    /// Name of the company; for people on a company account the account's name.
    pub(crate) company: Option<String>,
    /// The caller's own id of the client, unique within the tenant.
    pub(crate) external_id: Option<String>,
    pub(crate) marketing_opt_in: bool,
    pub(crate) client_type: ClientType,
    /// Mail domain of a company account.
    pub(crate) company_domain: Option<String>,
    /// The company account a person belongs to.
    pub(crate) account_id: Option<ClientId>,
    pub(crate) created_at: DateTime<Utc>,
    /// Also its version, from which the ETag is made (D19).
    pub(crate) updated_at: DateTime<Utc>,
}

/// The roster of a client: the travelers who belong to it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Roster {
    pub(crate) client_id: ClientId,
    /// In the order in which they were sent.
    pub(crate) travelers: Vec<TravelerView>,
}

impl Roster {
    pub(crate) fn from_body(sent: &[Traveler]) -> Vec<TravelerView> {
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
pub(crate) struct AccountContact {
    pub(crate) account_id: ClientId,
    pub(crate) email: Email,
    pub(crate) name: Option<String>,
    pub(crate) phone: Option<Phone>,
    /// The colleague's own client, where there is one.
    pub(crate) client_id: Option<ClientId>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

/// A lead. Texts for partners call it _enquiry_.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lead {
    pub(crate) id: LeadId,
    pub(crate) client_id: ClientId,
    /// `<prefix>-<year>-<six digits>`.
    pub(crate) enquiry_number: String,
    /// The caller's own id of the lead. Several leads may share one.
    pub(crate) external_id: Option<String>,
    pub(crate) title: String,
    /// Stage of the lead and of its trip.
    pub(crate) stage: Stage,
    /// Why it was lost; `None` at other stages.
    pub(crate) lost_reason: Option<String>,
    pub(crate) follow_up: bool,
    /// Lower-case email of the advisor who owns it.
    pub(crate) owner: Option<String>,
    /// The brief of a lead without a trip (D20).
    pub(crate) brief: Brief,
    /// The marketing block, a JSON object.
    pub(crate) attribution: Option<Value>,
    pub(crate) created_at: DateTime<Utc>,
    /// Also its version, from which the ETag is made (D19).
    pub(crate) updated_at: DateTime<Utc>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Trip {
    pub(crate) id: TripId,
    pub(crate) lead_id: LeadId,
    pub(crate) title: String,
    /// The brief of the lead, which lives here once there is a trip (D20).
    pub(crate) brief: Brief,
    pub(crate) created_at: DateTime<Utc>,
    /// Also its version, from which the ETag is made (D19).
    pub(crate) updated_at: DateTime<Utc>,
}

common::named! {
    /// The status of a proposal. Names are those in the API and in the database.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProposalStatus {
        /// The advisor is still preparing it.
        Draft = "draft",
        /// Sent to the traveler.
        Sent = "sent",
        /// Opened by the traveler.
        Viewed = "viewed",
        /// Discarded by the advisor.
        Discarded = "discarded",
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) id: ProposalId,
    pub(crate) trip_id: TripId,
    pub(crate) status: ProposalStatus,
    /// Title; `None` until it was sent.
    pub(crate) title: Option<String>,
    /// URL at which the traveler opens it.
    pub(crate) url: Option<String>,
    /// Channel by which it was sent, such as `email`.
    pub(crate) channel: Option<String>,
    pub(crate) created_at: DateTime<Utc>,
    /// When it was last sent.
    pub(crate) sent_at: Option<DateTime<Utc>>,
    /// When the traveler opened it after it was last sent.
    pub(crate) viewed_at: Option<DateTime<Utc>>,
}

impl Proposal {
    /// The draft that a trip opens with (D20).
    pub(crate) const fn draft(id: ProposalId, trip_id: TripId, now: DateTime<Utc>) -> Self {
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

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Itinerary {
    pub(crate) proposal_id: ProposalId,
    /// JSON text, as sent.
    pub(crate) snapshot: String,
    /// When it was stored.
    pub(crate) updated_at: DateTime<Utc>,
}

/// Whether the credit that an invoice counts as paid was actually taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreditState {
    /// The booking uses no credit.
    None,
    /// Counted as paid, not yet confirmed by `booking.credit_applied`.
    Pending,
    /// Confirmed by `booking.credit_applied`.
    Confirmed,
}

impl CreditState {
    /// The value in the API and in the database.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pending => "pending",
            Self::Confirmed => "confirmed",
        }
    }
}

/// An amount of money in hundredths of the major unit, so that sums are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money(pub(crate) i64);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Invoice {
    /// Identifies the booking within the tenant.
    pub(crate) booking_ref: String,
    pub(crate) lead_id: LeadId,
    pub(crate) trip_id: Option<TripId>,
    pub(crate) client_id: ClientId,
    /// Price of the booking.
    pub(crate) amount: Option<Money>,
    /// ISO 4217 code of all amounts.
    pub(crate) currency: Option<String>,
    /// Corporate credit counted as paid.
    pub(crate) credit_used: Option<Money>,
    /// Corporate credit that was actually taken.
    pub(crate) credit_applied: Option<Money>,
    pub(crate) credit_state: CreditState,
    /// Credit counted as paid that was not taken, and is due again.
    pub(crate) balance_due: Money,
    /// When the booking was cancelled; `None` while it stands.
    pub(crate) cancelled_at: Option<DateTime<Utc>>,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

/// The corporate credit of a client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Credit {
    pub(crate) client_id: ClientId,
    /// Time of the balance; the newest one wins (D15b).
    pub(crate) as_of: DateTime<Utc>,
    pub(crate) membership_id: Option<String>,
    /// Name of the employer.
    pub(crate) corporate_name: Option<String>,
    pub(crate) available_paise: Option<i64>,
    pub(crate) granted_paise: Option<i64>,
    /// Share of a booking that credit may pay, 0 to 100.
    pub(crate) redeemable_percent: Option<f64>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Discovery {
    pub(crate) id: DiscoveryId,
    pub(crate) client_id: ClientId,
    /// Its lead; a lead has at most one record.
    pub(crate) lead_id: LeadId,
    /// A JSON object of the known fields.
    pub(crate) discovery: Value,
    pub(crate) created_at: DateTime<Utc>,
    pub(crate) updated_at: DateTime<Utc>,
}

/// Preferences of a traveler that hold for all trips.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TravellerProfile {
    pub(crate) client_id: ClientId,
    /// A JSON object with the fields `constraints` and `styleDefaults`.
    pub(crate) profile: Value,
    /// Free text about the traveler.
    pub(crate) essence: Option<String>,
    /// Time of the last change.
    pub(crate) updated_at: DateTime<Utc>,
}

/// The fields of a tenant that rules use.
#[derive(Clone, Debug)]
pub struct Tenant {
    /// Primary key; all other records refer to it.
    pub id: TenantId,
    /// The name that callers send as `X-Connect-Tenant`, and that envelopes carry.
    pub slug: String,
    /// First part of its enquiry numbers, such as `ENQ`.
    pub enquiry_prefix: String,
    /// Whether Traveller Discovery is on (D15a).
    pub discovery_enabled: bool,
    /// Whether it has a subscription for outbound events.
    pub has_subscriptions: bool,
}

/// A member of the tenant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Lower case, as members are looked up.
    pub(crate) email: String,
    pub(crate) name: String,
}

/// An entry of the ledger: an applied event with its first result, which duplicates repeat (D7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerEntry {
    pub(crate) event_id: String,
    pub(crate) event_type: String,
    pub(crate) key_prefix: String,
    /// The request that applied it.
    pub(crate) request_id: Uuid,
    /// Its index in the batch of that request.
    pub(crate) ordinal: i16,
    pub(crate) client_id: Option<ClientId>,
    pub(crate) lead_id: Option<LeadId>,
    pub(crate) trip_id: Option<TripId>,
    pub(crate) discovery_id: Option<DiscoveryId>,
    pub(crate) warnings: Vec<String>,
    /// The trace of its request, unless it is named like the request. Not loaded.
    pub(crate) trace_id: Option<Uuid>,
}
