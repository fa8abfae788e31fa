//! What each endpoint may refuse with. Statuses, codes, fields and headers are those of the one table of refusals;
//! here stands which endpoint can give a refusal, and what it means to a caller.

use crate::error::Refusal;
use crate::route::{Endpoint, Kind};
use common::model::{ClientId, Stage};
use common::write::WriteRefusal;
use uuid::Uuid;

/// The id in examples of refusals.
const ID: Uuid = Uuid::from_u128(0x0199_c0de_7a3b_7c11_9d1e_3f5a_8b2c_4d6e);

/// One of each refusal that a caller may see, with an example of what it says.
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

/// Whether an endpoint can give it.
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
        // Also of what HTTP forbids, and a body whose transfer breaks; also of a peer with too many requests.
        Refusal::InvalidRequest(_) | Refusal::Overloaded { .. }
        // Of a path, for its other methods.
        | Refusal::MethodNotAllowed(_) => true,
        // Of no path that there is.
        Refusal::NotFound => false,
        Refusal::ProcessingTimeout => kind == Kind::Intake,
        Refusal::IdempotencyKeyRequired => kind == Kind::Create,
        Refusal::LookupFieldRequired(_) => kind == Kind::LookUp,
        Refusal::RateLimited => matches!(kind, Kind::LookUp | Kind::Read),
        Refusal::Write(refusal) => is_given_by_record(refusal, endpoint),
    }
}

fn is_given_by_record(refusal: &WriteRefusal, endpoint: Endpoint) -> bool {
    use Endpoint::{ChangeClient, ChangeLead, ChangeTrip, CreateClient, CreateLead, GetTrip};
    let kind = endpoint.kind();
    let is_write = matches!(kind, Kind::Create | Kind::Change);
    match refusal {
        WriteRefusal::InvalidRequest { .. }
        | WriteRefusal::QuotaExceeded { .. }
        | WriteRefusal::ProcessingTimeout
        | WriteRefusal::InternalError => is_write,
        WriteRefusal::InvalidItinerary { .. } => matches!(endpoint, CreateLead | ChangeTrip),
        WriteRefusal::IdentityRequired => kind == Kind::Create,
        // Of `POST /leads` for an unknown `clientId`.
        WriteRefusal::NotFound => matches!(kind, Kind::Read | Kind::Change) || endpoint == CreateLead,
        WriteRefusal::ClientExists { .. } => endpoint == CreateClient,
        WriteRefusal::IdentityTaken { .. } => matches!(endpoint, CreateClient | ChangeClient),
        WriteRefusal::TripNotOpen => matches!(endpoint, GetTrip | ChangeTrip),
        WriteRefusal::TripClosed { .. } => endpoint == ChangeTrip,
        WriteRefusal::StaleWrite { .. } => kind == Kind::Change,
        WriteRefusal::IdempotencyKeyReused => kind == Kind::Create,
        WriteRefusal::ReasonRequired | WriteRefusal::StageNotAllowed | WriteRefusal::OwnerNotMember => {
            endpoint == ChangeLead
        }
        WriteRefusal::LeadCreateFailed => endpoint == CreateLead,
        // Of advisor actions only, which don't come by HTTP.
        WriteRefusal::ProposalNotSent | WriteRefusal::BookingRefConflict { .. } => false,
    }
}

const INVALID: &str = "The request is at fault; the message names every place. Nothing was written, and the \
same request fails again.";

/// What it means to a caller, and what to do.
pub(super) const fn meaning(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::Unauthorized => {
            "The credentials do not hold: a header is missing, malformed or repeated, the key unknown, \
            revoked or expired, the timestamp outside ±300 s, the signature wrong or used before. Sign anew."
        }
        Refusal::Forbidden => "The key lacks the scope, or `X-Connect-Tenant` is not the key's agency.",
        Refusal::InvalidRequest(_) => INVALID,
        Refusal::IdempotencyKeyRequired => "A POST without `Idempotency-Key`.",
        Refusal::LookupFieldRequired(_) => "The look-up names nothing to look for.",
        Refusal::NotFound => "No such route.",
        Refusal::MethodNotAllowed(_) => {
            "For the path's other methods, so never for one that is described here. `Allow` names those it takes."
        }
        Refusal::RequestTimeout => "The body did not arrive in time.",
        Refusal::PayloadTooLarge => "The body is too large.",
        Refusal::RateLimited => {
            "The key reads more often than its agency allows. Read again after `Retry-After`."
        }
        Refusal::Internal => "A fault of ours.",
        Refusal::ReplayStoreUnavailable => {
            "The store does not answer. Nothing was ingested, written or read: sign anew and send again \
            after `Retry-After`."
        }
        Refusal::Overloaded { .. } => {
            "Too much at once. Nothing was ingested, written or read: sign anew and send again after \
            `Retry-After`."
        }
        Refusal::ProcessingTimeout => {
            "No result in time. The batch is or may be queued, and is then applied exactly once: sign anew \
            and send it again, and what was applied is `duplicate`, with its ids."
        }
        Refusal::Write(refusal) => meaning_of_record(refusal),
    }
}

const fn meaning_of_record(refusal: &WriteRefusal) -> &'static str {
    match refusal {
        WriteRefusal::InvalidRequest { .. } => INVALID,
        WriteRefusal::InvalidItinerary { .. } => {
            "Nothing is wrong with the body but its itinerary; `errors` lists what."
        }
        WriteRefusal::IdentityRequired => {
            "None of `email`, `phone`, `externalId` (or `clientId`) says whose it is."
        }
        WriteRefusal::NotFound => {
            "No such record in your agency; also for another agency's record, and for an id that can't be \
            one."
        }
        WriteRefusal::ClientExists { .. } => "The identity is that of a client; `clientId` names it.",
        WriteRefusal::IdentityTaken { .. } => {
            "Another client holds that `email` or `externalId`; `clientId` names it."
        }
        WriteRefusal::TripNotOpen => "The enquiry has no trip workspace.",
        WriteRefusal::TripClosed { .. } => {
            "The enquiry is lost, archived, booked or travelled; `stage` says which."
        }
        WriteRefusal::StaleWrite { .. } => {
            "`If-Match` names another version than the record has; `updatedAt` is the current one."
        }
        WriteRefusal::IdempotencyKeyReused => "The `Idempotency-Key` came before with another body or path.",
        WriteRefusal::ReasonRequired => "`lost` needs a `reason` of at least 5 characters.",
        WriteRefusal::StageNotAllowed => {
            "The stage is set by proposals, bookings or advisors, or needs a trip first."
        }
        WriteRefusal::OwnerNotMember => "The owner is not an active member of the agency.",
        WriteRefusal::ProposalNotSent => "The proposal was not sent.",
        WriteRefusal::BookingRefConflict { .. } => "Another enquiry's booking has this reference.",
        WriteRefusal::QuotaExceeded { .. } => {
            "The agency's quota of writes for the month is used up. Replays still pass."
        }
        WriteRefusal::LeadCreateFailed => {
            "The enquiry could not be opened, and nothing was kept: send it again with the same \
            `Idempotency-Key`."
        }
        WriteRefusal::ProcessingTimeout => {
            "No answer in time. The write is not begun any more, but may have been before: repeat a POST \
            with its `Idempotency-Key`; read the record before a PATCH is repeated."
        }
        WriteRefusal::InternalError => "A fault of ours.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place of each in [`all`]. A new one doesn't compile until it has a place here.
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
            WriteRefusal::ProposalNotSent | WriteRefusal::BookingRefConflict { .. } => return None,
        })
    }

    #[test]
    fn every_refusal_that_a_caller_may_see_is_described() {
        let all = all();
        assert!(all.iter().enumerate().all(|(i, refusal)| place(refusal) == Some(i)));
    }

    #[test]
    fn every_refusal_but_that_of_unknown_routes_is_given_by_an_endpoint() {
        let endpoints: Vec<Endpoint> =
            crate::route::Route::ALL.iter().flat_map(|route| route.endpoints()).copied().collect();
        for refusal in all().iter().filter(|refusal| **refusal != Refusal::NotFound) {
            assert!(endpoints.iter().any(|endpoint| is_given_by(refusal, *endpoint)), "{refusal:?}");
        }
    }
}
