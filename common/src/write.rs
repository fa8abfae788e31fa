//! Records writes: their messages on the records queue, and the replies (specification: Records routes).

use crate::caller::Caller;
use crate::model::{ClientId, LeadId, Stage};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use uuid::Uuid;

/// Metadata of a records write. Its body is the request's, byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteMeta {
    /// The key and tenant that signed the request; first, so that a bundle contains them once.
    pub caller: Caller,
    /// The request. The write is in the ledger as `connect-api:<request id>` (D17).
    pub request_id: Uuid,
    /// When it was published.
    pub published_at: DateTime<Utc>,
    /// When its caller gets 503, by the clock of the database. The worker does not begin the write after this time.
    pub deadline: DateTime<Utc>,
    /// The route, with the id of the record that it names.
    pub target: WriteTarget,
    /// The request's path; two requests with one `Idempotency-Key` are the same only with the same path (D17).
    pub path: String,
    /// `Idempotency-Key` of a POST.
    pub idempotency_key: Option<String>,
    /// `If-Match` of a PATCH.
    pub if_match: Option<IfMatch>,
    /// Whether nothing is to be written (`Connect-Dry-Run`, D46). A worker that ignored it would write.
    pub dry_run: bool,
    /// The request's trace context, as a W3C `traceparent`.
    pub traceparent: Option<String>,
}

/// The route of a records write.
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

/// The worker's reply to a records write.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum WriteReply {
    /// Applied, now or by an earlier request with the same key.
    Written(Written),
    /// Refused; nothing was written.
    Refused(WriteRefusal),
}

/// The response to a successful write.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Written {
    /// 201 or 200.
    pub status: u16,
    /// ETag of the record; empty after a dry run, which makes no version.
    pub etag: String,
    /// Whether this repeats the response to an earlier request with the same key and body (`Idempotent-Replayed`).
    pub replayed: bool,
    /// `{"data": ..}`.
    pub body: Box<RawValue>,
}

/// Why a records write or an advisor action is refused. Serialized as its `code` with the ids that belong to it
/// (specification: Errors).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "code", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub enum WriteRefusal {
    /// The body is not valid.
    InvalidRequest {
        /// Every fault with its place.
        faults: String,
    },
    /// The itinerary is not valid.
    InvalidItinerary {
        /// What is wrong with it.
        errors: Vec<String>,
    },
    /// No email, phone, externalId or clientId.
    IdentityRequired,
    /// The record does not exist in the tenant.
    NotFound,
    /// A client with this identity exists.
    ClientExists {
        /// The client who has the identity.
        client_id: ClientId,
    },
    /// Another client holds that email or externalId.
    IdentityTaken {
        /// The client who has it.
        client_id: ClientId,
    },
    /// The lead has no trip workspace.
    TripNotOpen,
    /// The lead is lost, archived, booked or travelled.
    TripClosed {
        /// The lead's stage.
        stage: Stage,
    },
    /// `If-Match` names another version.
    StaleWrite {
        /// The current version, as an ETag without its quotes.
        updated_at: String,
    },
    /// The `Idempotency-Key` was used before, with another body or path.
    IdempotencyKeyReused,
    /// `lost` needs a reason of at least 5 characters.
    ReasonRequired,
    /// The stage is set by workflows, or needs a trip first.
    StageNotAllowed,
    /// The owner is not an active member of the tenant.
    OwnerNotMember,
    /// The trip's proposal was not sent.
    ProposalNotSent,
    /// A booking of another lead has this reference.
    BookingRefConflict {
        /// The lead of that booking.
        lead_id: LeadId,
    },
    /// The booking of this reference was canceled (D30).
    BookingCancelled {
        /// The lead of that booking.
        lead_id: LeadId,
    },
    /// The tenant's monthly quota is used up (D23).
    QuotaExceeded {
        /// Seconds until the next month begins.
        retry_after: u32,
    },
    /// The lead could not be opened; nothing was stored.
    LeadCreateFailed,
    /// Too many actions of the tenant wait. Only advisor actions get it.
    Overloaded,
    /// No reply in time (D21c). The write does not begin any more, but may already have been applied.
    ProcessingTimeout,
    /// A fault of Connect. The message reveals nothing internal.
    InternalError,
}

impl WriteRefusal {
    /// Status code and message (specification: Errors, Records routes; D4).
    pub fn status_and_message(&self) -> (u16, &str) {
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
            Self::StageNotAllowed => (
                422,
                "This stage is set by a workflow or needs a trip first; inquiry, follow_up, building_proposal, negotiation and lost can be set",
            ),
            Self::OwnerNotMember => (422, "The owner is not an active member of the agency"),
            Self::ProposalNotSent => (422, "The proposal was not sent"),
            Self::BookingRefConflict { .. } => (409, "Another enquiry's booking has this reference"),
            Self::BookingCancelled { .. } => {
                (409, "The booking with this reference was canceled; a new booking needs a new reference")
            }
            Self::QuotaExceeded { .. } => (429, "The monthly quota of writes is used up"),
            Self::LeadCreateFailed => (500, "The enquiry could not be opened; retry with the same Idempotency-Key"),
            Self::Overloaded => (
                503,
                "Too many actions of the agency wait; this one is kept as a dead letter until an operator requeues it",
            ),
            Self::ProcessingTimeout => (
                503,
                "No reply in time; retry a POST with the same Idempotency-Key; read the record before you retry a PATCH",
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
            | Self::BookingCancelled { .. }
            | Self::LeadCreateFailed
            | Self::Overloaded
            | Self::InternalError => None,
        }
    }

    /// The error body: `{statusCode, code, message}` and the ids that belong to the code. The message lists the faults.
    pub fn body(&self) -> serde_json::Value {
        let (status, message) = self.status_and_message();
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

impl From<crate::record::BodyError> for WriteRefusal {
    fn from(refused: crate::record::BodyError) -> Self {
        match refused {
            crate::record::BodyError::Invalid(faults) => Self::InvalidRequest { faults: faults.to_string() },
            crate::record::BodyError::InvalidItinerary(errors) => Self::InvalidItinerary { errors },
        }
    }
}
