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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{json, to_value};
    use uuid::Uuid;

    const NIL: &str = "00000000-0000-0000-0000-000000000000";
    const TIME: &str = "2026-01-02T03:04:05.000Z";

    fn time() -> DateTime<Utc> {
        TIME.parse().unwrap()
    }

    #[test]
    fn shows_the_itinerary_result_only_after_a_patch_with_an_itinerary() {
        let trip = TripView {
            id: TripId(Uuid::nil()),
            lead_id: LeadId(Uuid::nil()),
            enquiry_number: "ENQ-2026-000001".to_owned(),
            title: "Goa".to_owned(),
            stage: Stage::Inquiry,
            brief: BriefView::default(),
            guest_nationality: None,
            owner: Some(OwnerView { email: "a@b.c".to_owned(), name: "Ada".to_owned() }),
            proposal: ProposalView { status: "draft".to_owned(), sent_at: None },
            created_at: time(),
            updated_at: time(),
            itinerary_applied: None,
            itinerary_not_applied_reason: None,
        };
        let expected = json!({
            "id": NIL, "leadId": NIL, "enquiryNumber": "ENQ-2026-000001", "title": "Goa", "stage": "inquiry",
            "destination": null, "travelDates": null, "party": null, "budget": null, "guestNationality": null,
            "owner": {"email": "a@b.c", "name": "Ada"}, "proposal": {"status": "draft", "sentAt": null},
            "createdAt": TIME, "updatedAt": TIME,
        });
        assert_eq!(to_value(&trip).unwrap(), expected);

        let refused = TripView {
            proposal: ProposalView { status: "sent".to_owned(), sent_at: Some(time()) },
            itinerary_applied: Some(false),
            itinerary_not_applied_reason: Some("proposal_sent"),
            ..trip
        };
        let shown = to_value(refused).unwrap();
        assert_eq!(shown["proposal"], json!({"status": "sent", "sentAt": TIME}));
        assert_eq!(
            (&shown["itineraryApplied"], &shown["itineraryNotAppliedReason"]),
            (&json!(false), &json!("proposal_sent"))
        );
    }
}
