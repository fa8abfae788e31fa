//! A lead as the API shows it, and the fields that its trip shows as well.

use crate::clock;
use crate::model::{Brief, Budget, ClientId, LeadId, Party, Stage, TravelDates, TripId};
use chrono::{DateTime, Utc};
use serde::Serialize;

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
