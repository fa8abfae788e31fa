//! Records writes: what travels on the records queue, and what comes back (specification: Records routes).

use crate::caller::Caller;
use crate::model::{ClientId, LeadId, Stage};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Metadata of a records write; the message's body is the request's, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteMeta {
    /// The request; also the message's correlation id. The write is in the ledger as `connect-api:<request id>` (D17).
    pub request_id: Uuid,
    /// Who sent it.
    pub caller: Caller,
    /// When it was published.
    pub published_at: DateTime<Utc>,
    /// When its caller is told 503. It isn't begun afterwards.
    pub deadline: DateTime<Utc>,
    /// What is written.
    pub target: WriteTarget,
    /// The request's path; part of what makes two requests the same (D17).
    pub path: String,
    /// `Idempotency-Key` of a POST.
    pub idempotency_key: Option<String>,
    /// `If-Match` of a PATCH.
    pub if_match: Option<IfMatch>,
    /// The request's place in its trace. Absent from messages of the previous release.
    #[serde(default)]
    pub traceparent: Option<String>,
}

/// What a records write writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteTarget {
    /// `POST /clients`
    NewClient,
    /// `PATCH /clients/{clientId}`
    Client(ClientId),
    /// `POST /leads`
    NewLead,
    /// `PATCH /leads/{leadId}`
    Lead(LeadId),
    /// `PATCH /leads/{leadId}/trip`
    Trip(LeadId),
}

/// The condition of a conditional PATCH (D19).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum IfMatch {
    /// `*`: any version.
    Any,
    /// One of these ETags, with their quotes.
    OneOf(Vec<String>),
}

impl IfMatch {
    /// Whether a record of that version may be written.
    pub fn admits(&self, etag: &str) -> bool {
        match self {
            Self::Any => true,
            Self::OneOf(etags) => etags.iter().any(|listed| listed == etag),
        }
    }
}

/// The ETag of a version: `updatedAt` in double quotes.
pub fn etag(updated_at: DateTime<Utc>) -> String {
    format!("\"{}\"", crate::clock::to_text(updated_at))
}

/// How a write ended.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteAnswer {
    /// Written, now or before.
    Written(Written),
    /// Refused; nothing was written.
    Refused(WriteRefusal),
}

/// The answer to a successful write.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// 201 or 200.
    pub status: u16,
    /// ETag of the record.
    pub etag: String,
    /// Whether this is what an earlier request with the same key and body got (`Idempotent-Replayed`).
    pub replayed: bool,
    /// `{"data": ..}`.
    pub body: Box<RawValue>,
}

/// Why a records write or an advisor action is refused. Serialized, a variant is its `code` and the ids that go with it (specification: Errors).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum WriteRefusal {
    /// The body is at fault; the text names the places.
    InvalidRequest {
        /// Every fault found.
        faults: String,
    },
    /// The itinerary is at fault.
    InvalidItinerary {
        /// What is wrong with it.
        errors: Vec<String>,
    },
    /// No email, phone, externalId or clientId.
    IdentityRequired,
    /// No such record in the agency.
    NotFound,
    /// The identity is a client's.
    ClientExists {
        /// That client.
        client_id: ClientId,
    },
    /// Another client holds that email or externalId.
    IdentityTaken {
        /// That client.
        client_id: ClientId,
    },
    /// The enquiry has no trip workspace.
    TripNotOpen,
    /// The enquiry is lost, archived, booked or travelled.
    TripClosed {
        /// Which of these.
        stage: Stage,
    },
    /// `If-Match` names another version.
    StaleWrite {
        /// The current version, as an ETag without its quotes.
        updated_at: String,
    },
    /// The key came before with another body.
    IdempotencyKeyReused,
    /// `lost` needs a reason of at least 5 characters.
    ReasonRequired,
    /// The stage is set by workflows, or needs a trip first.
    StageNotAllowed,
    /// The owner is no active member.
    OwnerNotMember,
    /// The trip's proposal was not sent.
    ProposalNotSent,
    /// Another enquiry's booking has this reference.
    BookingRefConflict {
        /// That enquiry.
        lead_id: LeadId,
    },
    /// The agency's monthly quota is used up (D23).
    QuotaExceeded {
        /// Seconds until the next month begins.
        retry_after: u32,
    },
    /// The enquiry could not be opened; nothing was kept.
    LeadCreateFailed,
    /// There is no answer in time (D21c). It isn't begun any more; what was begun before may have been written.
    ProcessingTimeout,
    /// A fault of ours. Says nothing of the inside.
    InternalError,
}

impl WriteRefusal {
    /// Status and message (specification: Errors, Records routes; D4).
    pub fn answer(&self) -> (u16, &str) {
        match self {
            Self::InvalidRequest { faults } => (400, faults),
            Self::InvalidItinerary { .. } => (400, "The itinerary is not valid"),
            Self::IdentityRequired => (400, "One of email, phone, externalId or clientId is required"),
            Self::NotFound => (404, "No such record"),
            Self::ClientExists { .. } => (409, "A client with this identity exists"),
            Self::IdentityTaken { .. } => (409, "Another client holds this email or externalId"),
            Self::TripNotOpen => (409, "The enquiry has no trip workspace yet"),
            Self::TripClosed { .. } => (409, "The trip is closed"),
            Self::StaleWrite { .. } => (412, "The record has changed since"),
            Self::IdempotencyKeyReused => (422, "This Idempotency-Key was used with a different request"),
            Self::ReasonRequired => (422, "A lost enquiry needs a reason of at least 5 characters"),
            Self::StageNotAllowed => (422, "This stage is set by a workflow or needs a trip first"),
            Self::OwnerNotMember => (422, "The owner is not an active member of the agency"),
            Self::ProposalNotSent => (422, "The proposal was not sent"),
            Self::BookingRefConflict { .. } => (409, "Another enquiry's booking has this reference"),
            Self::QuotaExceeded { .. } => (429, "The monthly quota of writes is used up"),
            Self::LeadCreateFailed => {
                (500, "The enquiry could not be opened; retry with the same Idempotency-Key")
            }
            Self::ProcessingTimeout => (
                503,
                "No answer in time; repeat a POST with its Idempotency-Key, read the record before a PATCH",
            ),
            Self::InternalError => (500, "Internal error"),
        }
    }

    /// Seconds for `Retry-After`.
    pub const fn retry_after(&self) -> Option<u32> {
        match self {
            Self::QuotaExceeded { retry_after } => Some(*retry_after),
            Self::ProcessingTimeout => Some(5),
            Self::InvalidRequest { .. }
            | Self::InvalidItinerary { .. }
            | Self::IdentityRequired
            | Self::NotFound
            | Self::ClientExists { .. }
            | Self::IdentityTaken { .. }
            | Self::TripNotOpen
            | Self::TripClosed { .. }
            | Self::StaleWrite { .. }
            | Self::IdempotencyKeyReused
            | Self::ReasonRequired
            | Self::StageNotAllowed
            | Self::OwnerNotMember
            | Self::ProposalNotSent
            | Self::BookingRefConflict { .. }
            | Self::LeadCreateFailed
            | Self::InternalError => None,
        }
    }

    /// The error body: `{statusCode, code, message}` and the ids that go with the code. The faults are in the message.
    pub fn body(&self) -> serde_json::Value {
        let (status, message) = self.answer();
        let mut body = serde_json::to_value(self).expect("a refusal has string keys");
        body["statusCode"] = status.into();
        body["message"] = message.into();
        if let Some(fields) = body.as_object_mut() {
            fields.remove("faults");
            fields.remove("retryAfter");
        }
        body
    }
}

impl From<crate::record::Refused> for WriteRefusal {
    fn from(refused: crate::record::Refused) -> Self {
        match refused {
            crate::record::Refused::Invalid(faults) => Self::InvalidRequest { faults: faults.to_string() },
            crate::record::Refused::InvalidItinerary(errors) => Self::InvalidItinerary { errors },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_error_body_has_the_code_and_the_ids_that_go_with_it() {
        let client_id = ClientId(Uuid::nil());
        assert_eq!(
            WriteRefusal::ClientExists { client_id }.body(),
            json!({"statusCode": 409, "code": "client_exists", "message": "A client with this identity exists",
                   "clientId": client_id})
        );
        let closed = WriteRefusal::TripClosed { stage: Stage::Lost }.body();
        assert_eq!((&closed["stage"], &closed["statusCode"]), (&json!("lost"), &json!(409)));
        let invalid = WriteRefusal::InvalidRequest { faults: "name: must be a string".to_owned() }.body();
        assert_eq!(
            invalid,
            json!({"statusCode": 400, "code": "invalid_request", "message": "name: must be a string"})
        );
    }

    #[test]
    fn a_condition_admits_what_it_lists() {
        let at = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(etag(at), "\"2026-01-02T03:04:05.678Z\"");
        assert!(IfMatch::Any.admits(&etag(at)) && IfMatch::OneOf(vec![etag(at)]).admits(&etag(at)));
        assert!(!IfMatch::OneOf(vec!["\"x\"".to_owned()]).admits(&etag(at)));
    }
}
