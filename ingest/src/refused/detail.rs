//! What is recorded of a refusal beside its reason. The texts are Connect's own: nothing that a caller wrote is in them
//! (D35).

use crate::auth::{AuthFailure, FailedCheck, SIGNATURE};
use crate::refusal::Refusal;
use common::model::Scope;
use common::signature::{malformation, skew};
use hyper::HeaderMap;

/// Longest detail, in bytes. The list of all event types fits.
const DETAIL_MAX: usize = 300;

/// The fields that are named in details. Any other name may be a text of the caller.
const FIELDS: &str = " actor adults age amount attribution body budget campaign changeSummary childAges children clientId \
    company contact content currency days destination discovery email endDate essence eventId eventType events externalId \
    externalLeadId followUp guestNationality items itinerary itinerarySnapshot landingPath marketingOptIn medium message name \
    notes occurredAt origin owner party payload phone profilePatch reason referrer rooms source specVersion stage startDate \
    tenant term title travelDates travelers type Connect-Dry-Run Idempotency-Key If-Match ";

/// What was wrong, on a route that needs `scope`, at `now` (seconds since 1970).
pub(super) fn of_failed(headers: &HeaderMap, failed: &FailedCheck, scope: Scope, now: i64) -> Option<String> {
    let header = failed.header.unwrap_or_default();
    Some(match failed.failure {
        AuthFailure::MissingHeader => format!("{header}: is missing"),
        AuthFailure::RepeatedHeader => format!("{header}: is repeated"),
        AuthFailure::MalformedHeader => {
            let sent = headers.get(header).filter(|_| header == SIGNATURE);
            let what = sent.and_then(|value| value.to_str().ok()).and_then(malformation);
            format!("{header}: {}", what.unwrap_or("is empty, or has characters that it cannot have"))
        }
        AuthFailure::Stale => return skew(failed.signature.as_ref()?.timestamp(), now),
        AuthFailure::WrongScheme => "the events route takes v1 signatures, the records routes take v2".to_owned(),
        AuthFailure::Mismatch => "the secret, or the text that was signed, is another one".to_owned(),
        AuthFailure::RevokedKey | AuthFailure::ExpiredKey => "use another key".to_owned(),
        AuthFailure::Tenant => "X-Connect-Tenant: names another agency than that of the key".to_owned(),
        AuthFailure::Scope => format!("the key lacks the scope {scope}"),
        AuthFailure::UnknownKey | AuthFailure::Replayed => return None,
    })
}

/// The code of a refusal's response as its reason, and the first place of an invalid body.
pub(super) fn of_refusal(refusal: &Refusal) -> (String, Option<String>) {
    let row = refusal.row();
    let code = row.body["code"].as_str().unwrap_or_default().to_owned();
    let message = row.body["message"].as_str().unwrap_or_default();
    let detail = if code == "invalid_request" { first_fault(message) } else { Some(message.to_owned()) };
    (code, detail.filter(|detail| detail.len() <= DETAIL_MAX))
}

/// The first fault of a list such as `events[3].actor.email: is required; ...`, without names that the caller may have
/// made up.
fn first_fault(message: &str) -> Option<String> {
    let (place, what) = message.split_once(": ")?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-.[]".contains(c);
    if !place.chars().all(is_plain) {
        return None;
    }
    let names = place.split('.').map(|part| {
        let name = part.split('[').next().unwrap_or_default();
        let is_field = FIELDS.split(' ').any(|field| field == name && !field.is_empty());
        if is_field { part } else { "…" }
    });
    let what = what.split("; ").next().unwrap_or_default();
    Some(format!("{}: {what}", names.collect::<Vec<_>>().join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_and_names_of_the_caller_are_not() {
        let told = |message: &str| of_refusal(&Refusal::InvalidRequest(message.to_owned())).1;
        let fault = "events[3].actor.email: must be an email address; events: x";
        assert_eq!(told(fault).as_deref(), Some("events[3].actor.email: must be an email address"));
        let expected = Some("contact.…: is not a known field");
        assert_eq!(told("contact.ana: is not a known field").as_deref(), expected);
        assert_eq!(told("[\"ana@example.com\"]: is not a known field"), None);
        assert_eq!(told("[\"x: y\"]: is not a known field"), None);
        assert_eq!(told("body: must be an object").as_deref(), Some("body: must be an object"));
        assert_eq!(told(&format!("events: {}", "x".repeat(300))), None, "too long");
        let body = br#"{"events": [{"specVersion": "1.0", "eventId": "1", "eventType": "nope"}]}"#;
        let unknown = common::event::parse_batch(body, "acme").unwrap_err().to_string();
        let expected = "events[0].eventType: must be one of contact.identified, ";
        assert!(told(&unknown).is_some_and(|detail| detail.starts_with(expected)), "{unknown}");
    }

    #[test]
    fn other_refusals_have_the_code_and_message_of_their_response() {
        let (reason, detail) = of_refusal(&Refusal::RateLimited);
        assert_eq!((reason.as_str(), detail.as_deref()), ("rate_limited", Some("Too many reads per second")));
    }
}
