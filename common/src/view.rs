//! Records as the API shows them (specification: Resources and their fields): customer-safe, with every field
//! present and null for unknown values, except for a few optional fields.

use crate::clock;
use crate::model::{Brief, Budget, ClientId, LeadId, Party, Stage, TravelDates, TripId};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// A client (specification: Client).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientView {
    /// UUIDv7 (D18).
    pub id: ClientId,
    /// Full name.
    pub name: String,
    /// As sent.
    pub email: Option<String>,
    /// As sent.
    pub phone: Option<String>,
    /// Label, at most 500 characters.
    pub company: Option<String>,
    /// The caller's own id for the person.
    pub external_id: Option<String>,
    /// Marketing consent.
    pub marketing_opt_in: bool,
    /// `individual` or `company` (D13).
    pub client_type: String,
    /// The roster, in its order.
    pub travelers: Vec<TravelerView>,
    /// When the client was created.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
    /// Last change; the ETag is derived from it (D19).
    #[serde(serialize_with = "clock::serialize")]
    pub updated_at: DateTime<Utc>,
}

/// One of a client's travelers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TravelerView {
    /// Full name.
    pub name: String,
    /// `adult`, `child` or `infant`.
    #[serde(rename = "type")]
    pub kind: String,
    /// In years.
    pub age: Option<i16>,
    /// As sent.
    pub email: Option<String>,
    /// As sent.
    pub phone: Option<String>,
}

/// A lead (specification: Lead).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeadView {
    /// UUIDv7 (D18).
    pub id: LeadId,
    /// `<prefix>-<year>-<six digits>`.
    pub enquiry_number: String,
    /// Title advisors see.
    pub title: String,
    /// The stage of the lead and of its trip.
    pub stage: Stage,
    /// Flag for follow-up.
    pub follow_up: bool,
    /// The lead's client.
    pub client_id: ClientId,
    /// Id of the trip workspace; absent until it is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trip_id: Option<TripId>,
    /// The caller's own id for the lead.
    pub external_id: Option<String>,
    /// The advisor that the lead is assigned to; null for none (D16).
    pub owner: Option<OwnerView>,
    /// What the traveler asks for.
    #[serde(flatten)]
    pub brief: BriefView,
    /// When it was opened.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
    /// Last change; the ETag is derived from it (D19).
    #[serde(serialize_with = "clock::serialize")]
    pub updated_at: DateTime<Utc>,
}

/// The advisor that a lead is assigned to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OwnerView {
    /// Lower case.
    pub email: String,
    /// Full name.
    pub name: String,
}

/// The part of a brief that leads and trips both show; null where absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BriefView {
    /// Free text.
    pub destination: Option<String>,
    /// Travel dates; null if absent.
    pub travel_dates: Option<TravelDates>,
    /// Travel party; null if absent.
    pub party: Option<Party>,
    /// Budget; null if absent.
    pub budget: Option<Budget>,
}

/// All but the nationality, which only a trip shows.
impl From<Brief> for BriefView {
    fn from(brief: Brief) -> Self {
        let Brief { destination, travel_dates, party, budget, guest_nationality: _ } = brief;
        Self { destination, travel_dates, party, budget }
    }
}

/// A trip workspace (specification: Trip).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TripView {
    /// UUIDv7 (D18).
    pub id: TripId,
    /// The trip's lead.
    pub lead_id: LeadId,
    /// The lead's number: `<prefix>-<year>-<six digits>`.
    pub enquiry_number: String,
    /// At most 200 characters.
    pub title: String,
    /// The lead's stage.
    pub stage: Stage,
    /// What the traveler asks for.
    #[serde(flatten)]
    pub brief: BriefView,
    /// ISO 3166-1 alpha-2 passport country of the party.
    pub guest_nationality: Option<String>,
    /// The advisor that the lead is assigned to; null for none (D16).
    pub owner: Option<OwnerView>,
    /// Status of the newest proposal.
    pub proposal: ProposalView,
    /// When it was opened.
    #[serde(serialize_with = "clock::serialize")]
    pub created_at: DateTime<Utc>,
    /// Last change; the ETag is derived from it (D19).
    #[serde(serialize_with = "clock::serialize")]
    pub updated_at: DateTime<Utc>,
    /// Whether the itinerary of a PATCH was applied; absent when it had none (D21b).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itinerary_applied: Option<bool>,
    /// Why it was not: `advisor_working`, `proposal_sent`, `no_proposal`, `update_failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub itinerary_not_applied_reason: Option<&'static str>,
}

/// The status of a proposal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposalView {
    /// `draft`, `sent`, `viewed` or `discarded`.
    pub status: String,
    /// Null until it is sent.
    #[serde(serialize_with = "optional_time")]
    pub sent_at: Option<DateTime<Utc>>,
}

fn optional_time<S: serde::Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => clock::serialize(at, serializer),
        None => serializer.serialize_none(),
    }
}
