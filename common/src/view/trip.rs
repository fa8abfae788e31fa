//! A trip workspace as the API shows it.

use super::{BriefView, OwnerView};
use crate::clock;
use crate::model::{LeadId, Stage, TripId};
use chrono::{DateTime, Utc};
use serde::Serialize;

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
