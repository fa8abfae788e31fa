//! The refusals of each endpoint, and their meaning for callers. Statuses, codes, fields and headers come from the table of
//! refusals.

use crate::http::route::{Endpoint, EndpointKind};
use crate::refusal::Refusal;
use common::model::{ClientId, Stage};
use common::write::WriteRefusal;
use uuid::Uuid;

/// The id in examples of refusals.
const ID: Uuid = Uuid::from_u128(0x0199_c0de_7a3b_7c11_9d1e_3f5a_8b2c_4d6e);

/// An example of each refusal that a caller may get.
pub(super) fn all() -> Vec<Refusal> {
    let faults =
        "party.adults: must be a whole number from 0 to 1000; nickname: is not a known field".to_owned();
    let own = [
        Refusal::Unauthorized,
        Refusal::Forbidden,
        Refusal::InvalidRequest("events[3].actor.email: must be an email address".to_owned()),
        Refusal::IdempotencyKeyRequired,
        Refusal::LookupFieldRequired("externalId is required"),
        Refusal::NotFound,
        Refusal::MethodNotAllowed("GET, POST"),
        Refusal::RequestTimeout,
        Refusal::PayloadTooLarge,
        Refusal::RateLimited,
        Refusal::Internal,
        Refusal::ReplayStoreUnavailable,
        Refusal::Overloaded { retry_after: 1 },
        Refusal::ProcessingTimeout,
    ];
    let of_writes = [
        WriteRefusal::InvalidRequest { faults },
        WriteRefusal::InvalidItinerary { errors: vec!["days[0].title: is required".to_owned()] },
        WriteRefusal::IdentityRequired,
        WriteRefusal::NotFound,
        WriteRefusal::ClientExists { client_id: ClientId(ID) },
        WriteRefusal::IdentityTaken { client_id: ClientId(ID) },
        WriteRefusal::TripNotOpen,
        WriteRefusal::TripClosed { stage: Stage::Lost },
        WriteRefusal::StaleWrite { updated_at: "2026-05-01T10:00:00.000Z".to_owned() },
        WriteRefusal::IdempotencyKeyReused,
        WriteRefusal::ReasonRequired,
        WriteRefusal::StageNotAllowed,
        WriteRefusal::OwnerNotMember,
        WriteRefusal::QuotaExceeded { retry_after: 86_400 },
        WriteRefusal::LeadCreateFailed,
        WriteRefusal::ProcessingTimeout,
        WriteRefusal::InternalError,
    ];
    own.into_iter().chain(of_writes.into_iter().map(Refusal::Write)).collect()
}

/// Whether an endpoint can return the refusal.
pub(super) fn is_given_by(refusal: &Refusal, endpoint: Endpoint) -> bool {
    let kind = endpoint.kind();
    let is_signed = endpoint.scheme().is_some();
    match refusal {
        Refusal::Unauthorized
        | Refusal::Forbidden
        | Refusal::RequestTimeout
        | Refusal::PayloadTooLarge
        | Refusal::ReplayStoreUnavailable
        | Refusal::Internal => is_signed,
        // Any request can violate HTTP, have a body whose transfer breaks, or come from a peer with too many requests.
        Refusal::InvalidRequest(_) | Refusal::Overloaded { .. }
        // For the other methods of the path.
        | Refusal::MethodNotAllowed(_) => true,
        // Only for unknown paths.
        Refusal::NotFound => false,
        Refusal::ProcessingTimeout => kind == EndpointKind::Intake,
        Refusal::IdempotencyKeyRequired => kind == EndpointKind::Create,
        Refusal::LookupFieldRequired(_) => kind == EndpointKind::LookUp,
        Refusal::RateLimited => matches!(kind, EndpointKind::LookUp | EndpointKind::Read),
        Refusal::Write(refusal) => is_given_by_record(refusal, endpoint),
    }
}

fn is_given_by_record(refusal: &WriteRefusal, endpoint: Endpoint) -> bool {
    use Endpoint::{ChangeClient, ChangeLead, ChangeTrip, CreateClient, CreateLead, GetTrip};
    let kind = endpoint.kind();
    let is_write = matches!(kind, EndpointKind::Create | EndpointKind::Change);
    match refusal {
        WriteRefusal::InvalidRequest { .. }
        | WriteRefusal::QuotaExceeded { .. }
        | WriteRefusal::ProcessingTimeout
        | WriteRefusal::InternalError => is_write,
        WriteRefusal::InvalidItinerary { .. } => matches!(endpoint, CreateLead | ChangeTrip),
        WriteRefusal::IdentityRequired => kind == EndpointKind::Create,
        // Of `POST /leads` for an unknown `clientId`.
        WriteRefusal::NotFound => {
            matches!(kind, EndpointKind::Read | EndpointKind::Change) || endpoint == CreateLead
        }
        WriteRefusal::ClientExists { .. } => endpoint == CreateClient,
        WriteRefusal::IdentityTaken { .. } => matches!(endpoint, CreateClient | ChangeClient),
        WriteRefusal::TripNotOpen => matches!(endpoint, GetTrip | ChangeTrip),
        WriteRefusal::TripClosed { .. } => endpoint == ChangeTrip,
        WriteRefusal::StaleWrite { .. } => kind == EndpointKind::Change,
        WriteRefusal::IdempotencyKeyReused => kind == EndpointKind::Create,
        WriteRefusal::ReasonRequired | WriteRefusal::StageNotAllowed | WriteRefusal::OwnerNotMember => {
            endpoint == ChangeLead
        }
        WriteRefusal::LeadCreateFailed => endpoint == CreateLead,
        // Only for advisor actions, which are not sent by HTTP.
        WriteRefusal::ProposalNotSent
        | WriteRefusal::BookingRefConflict { .. }
        | WriteRefusal::BookingCancelled { .. } => false,
    }
}

const INVALID: &str = "The request is invalid; the message names every place. Nothing was written, and the \
same request fails again.";

/// The meaning for the caller, and what to do.
pub(super) const fn meaning(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unauthorized => {
            "The credentials are rejected: a header is missing, malformed or repeated, the key is unknown, \
            revoked or expired, the timestamp is outside ±300 s, or the signature is wrong or was used \
            before. Sign the request again."
        }
        Refusal::Forbidden => {
            "The key lacks the scope, or `X-Connect-Tenant` is not the slug of the key's agency."
        }
        Refusal::InvalidRequest(_) => INVALID,
        Refusal::IdempotencyKeyRequired => "The POST has no `Idempotency-Key`.",
        Refusal::LookupFieldRequired(_) => {
            "The look-up has none of the parameters by which records are found."
        }
        Refusal::NotFound => "No such route.",
        Refusal::MethodNotAllowed(_) => {
            "Only for the path's other methods, never for one that is described here. `Allow` lists the methods."
        }
        Refusal::RequestTimeout => "The body did not arrive in time.",
        Refusal::PayloadTooLarge => "The body is too large.",
        Refusal::RateLimited => {
            "The key has reached the limit of reads per second. Repeat the read after `Retry-After`."
        }
        Refusal::Internal => "An internal error of Connect.",
        Refusal::ReplayStoreUnavailable => {
            "The database is unavailable. Nothing was ingested, written or read: sign again and resend after \
            `Retry-After`."
        }
        Refusal::Overloaded { .. } => {
            "The service is overloaded. Nothing was ingested, written or read: sign again and resend after \
            `Retry-After`."
        }
        Refusal::ProcessingTimeout => {
            "There was no result in time. The batch is queued, or may be; if it is, it is applied exactly \
            once. Sign again and resend: events that were applied are `duplicate`, with their ids."
        }
        Refusal::Write(refusal) => meaning_of_record(refusal),
    }
}

const fn meaning_of_record(refusal: &WriteRefusal) -> &'static str {
    match refusal {
        WriteRefusal::InvalidRequest { .. } => INVALID,
        WriteRefusal::InvalidItinerary { .. } => {
            "The itinerary is invalid, and the rest of the body is valid; `errors` lists the errors."
        }
        WriteRefusal::IdentityRequired => {
            "The person is not identified: send `email`, `phone` or `externalId` (or `clientId`)."
        }
        WriteRefusal::NotFound => {
            "No such record exists in your agency. Also for a record of another agency, and for a malformed id."
        }
        WriteRefusal::ClientExists { .. } => "A client with this identity exists; `clientId` names it.",
        WriteRefusal::IdentityTaken { .. } => {
            "Another client has this `email` or `externalId`; `clientId` names it."
        }
        WriteRefusal::TripNotOpen => "The enquiry has no trip workspace.",
        WriteRefusal::TripClosed { .. } => {
            "The enquiry is lost, archived, booked or travelled; `stage` says which."
        }
        WriteRefusal::StaleWrite { .. } => {
            "The record has another version than `If-Match` names; `updatedAt` is the current one."
        }
        WriteRefusal::IdempotencyKeyReused => {
            "The `Idempotency-Key` was used before with another body or path."
        }
        WriteRefusal::ReasonRequired => "`lost` needs a `reason` of at least 5 characters.",
        WriteRefusal::StageNotAllowed => {
            "The stage is set by proposals, bookings or advisors, or needs a trip first."
        }
        WriteRefusal::OwnerNotMember => "The owner is not an active member of the agency.",
        WriteRefusal::ProposalNotSent => "The proposal was not sent.",
        WriteRefusal::BookingRefConflict { .. } => "Another enquiry's booking has this reference.",
        WriteRefusal::BookingCancelled { .. } => "The booking with this reference was canceled.",
        WriteRefusal::QuotaExceeded { .. } => {
            "The agency's monthly quota of writes is used up. Replays are still served."
        }
        WriteRefusal::LeadCreateFailed => {
            "The enquiry could not be opened, and nothing was written: resend it with the same \
            `Idempotency-Key`."
        }
        WriteRefusal::ProcessingTimeout => {
            "The worker did not reply in time. The write will not begin after this response, but may already have \
            been applied: retry a POST with the same `Idempotency-Key`; read the record before you retry a PATCH."
        }
        WriteRefusal::InternalError => "An internal error of Connect.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index of a refusal in [`all`]. A new variant does not compile until it has an index here.
    fn place(refusal: &Refusal) -> Option<usize> {
        Some(match refusal {
            Refusal::Unauthorized => 0,
            Refusal::Forbidden => 1,
            Refusal::InvalidRequest(_) => 2,
            Refusal::IdempotencyKeyRequired => 3,
            Refusal::LookupFieldRequired(_) => 4,
            Refusal::NotFound => 5,
            Refusal::MethodNotAllowed(_) => 6,
            Refusal::RequestTimeout => 7,
            Refusal::PayloadTooLarge => 8,
            Refusal::RateLimited => 9,
            Refusal::Internal => 10,
            Refusal::ReplayStoreUnavailable => 11,
            Refusal::Overloaded { .. } => 12,
            Refusal::ProcessingTimeout => 13,
            Refusal::Write(refusal) => 14 + place_of_record(refusal)?,
        })
    }

    fn place_of_record(refusal: &WriteRefusal) -> Option<usize> {
        Some(match refusal {
            WriteRefusal::InvalidRequest { .. } => 0,
            WriteRefusal::InvalidItinerary { .. } => 1,
            WriteRefusal::IdentityRequired => 2,
            WriteRefusal::NotFound => 3,
            WriteRefusal::ClientExists { .. } => 4,
            WriteRefusal::IdentityTaken { .. } => 5,
            WriteRefusal::TripNotOpen => 6,
            WriteRefusal::TripClosed { .. } => 7,
            WriteRefusal::StaleWrite { .. } => 8,
            WriteRefusal::IdempotencyKeyReused => 9,
            WriteRefusal::ReasonRequired => 10,
            WriteRefusal::StageNotAllowed => 11,
            WriteRefusal::OwnerNotMember => 12,
            WriteRefusal::QuotaExceeded { .. } => 13,
            WriteRefusal::LeadCreateFailed => 14,
            WriteRefusal::ProcessingTimeout => 15,
            WriteRefusal::InternalError => 16,
            WriteRefusal::ProposalNotSent
            | WriteRefusal::BookingRefConflict { .. }
            | WriteRefusal::BookingCancelled { .. } => return None,
        })
    }

    #[test]
    fn every_refusal_that_a_caller_may_see_is_described() {
        let all = all();
        assert!(all.iter().enumerate().all(|(i, refusal)| place(refusal) == Some(i)));
    }

    #[test]
    fn every_refusal_except_that_of_unknown_routes_belongs_to_an_endpoint() {
        let endpoints: Vec<Endpoint> =
            crate::http::route::Route::ALL.iter().flat_map(|route| route.endpoints()).copied().collect();
        for refusal in all().iter().filter(|refusal| **refusal != Refusal::NotFound) {
            assert!(endpoints.iter().any(|endpoint| is_given_by(refusal, *endpoint)), "{refusal:?}");
        }
    }
}
