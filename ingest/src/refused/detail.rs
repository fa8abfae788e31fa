//! What is recorded of a refusal beside its reason. The texts are Connect's own: nothing that a caller wrote is in them
//! (D35).

use crate::auth::{AuthFailure, FailedCheck, SIGNATURE};
use crate::refusal::RefusalRow;
use common::model::Scope;
use common::signature::{malformation, skew};
use hyper::HeaderMap;

/// Longest detail of an invalid request, in bytes. The list of all event types fits.
const DETAIL_MAX: usize = 1_000;

/// The fields and parameters that are named in details. Any other name may be a text of the caller.
const FIELDS: &str = " actor adults after age amount attribution body budget campaign changeSummary childAges \
    children clientId company contact content currency days destination discovery email endDate essence eventId \
    eventType events externalId externalLeadId followUp guestNationality items itinerary itinerarySnapshot \
    landingPath limit marketingOptIn medium message name notes occurredAt origin owner party payload phone \
    profilePatch query reason referrer rooms source specVersion stage startDate subscription tenant term title \
    travelDates travelers type wait Connect-Dry-Run Idempotency-Key If-Match ";

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

/// The code of a refusal's response as its reason, and the faults of an invalid request.
pub(super) fn of_refusal(row: &RefusalRow) -> (String, Option<String>) {
    let code = row.body["code"].as_str().unwrap_or_default().to_owned();
    let message = row.body["message"].as_str().unwrap_or_default();
    let detail = if code == "invalid_request" { faults(message) } else { Some(message.to_owned()) };
    (code, detail)
}

/// The faults of a list such as `events[3].actor.email: is required; ...`, without names that the caller may have made up.
/// The list ends before a name that is quoted: what follows may be a part of it.
fn faults(message: &str) -> Option<String> {
    let mut told: Vec<String> = message.split("; ").map_while(fault).collect();
    while told.join("; ").len() > DETAIL_MAX {
        told.pop();
    }
    (!told.is_empty()).then(|| told.join("; "))
}

fn fault(text: &str) -> Option<String> {
    let (place, what) = text.split_once(": ")?;
    let is_plain = |c: char| c.is_alphanumeric() || "-._$…[]".contains(c);
    if !place.chars().all(is_plain) {
        return None;
    }
    let names = place.split('.').map(|part| {
        let name = part.split('[').next().unwrap_or_default();
        let is_field = FIELDS.split(' ').any(|field| field == name && !field.is_empty());
        if is_field { part } else { "…" }
    });
    Some(format!("{}: {what}", names.collect::<Vec<_>>().join(".")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::Refusal;

    #[test]
    fn places_are_told_and_names_of_the_caller_are_not() {
        let told = |message: &str| of_refusal(&Refusal::InvalidRequest(message.to_owned()).row()).1;
        let all = "events[3].actor.email: must be an email address; limit: must be given once";
        assert_eq!(told(all).as_deref(), Some(all));
        let expected = Some("contact.…: is not a known field; phone: must be a string");
        let faults = "contact.ana_é$: is not a known field; phone: must be a string; and 3 more";
        assert_eq!(told(faults).as_deref(), expected);
        for name in ["ana@example.com", "x: y", "x; body: ana"] {
            let quoted = format!("phone: must be a string; contact[{name:?}]: is not a known field; name: is required");
            assert_eq!(told(&quoted).as_deref(), Some("phone: must be a string"), "{name}");
        }
        assert_eq!(told("body: must be an object").as_deref(), Some("body: must be an object"));
        let long = format!("name: is required; events: {}", "x".repeat(DETAIL_MAX));
        assert_eq!(told(&long).as_deref(), Some("name: is required"), "too long");
        let body = br#"{"events": [{"specVersion": "1.0", "eventId": "1", "eventType": "nope"}]}"#;
        let unknown = common::event::read_batch(body, "acme").unwrap_err().to_string();
        let expected = "events[0].eventType: must be one of contact.identified, ";
        assert!(told(&unknown).is_some_and(|detail| detail.starts_with(expected)), "{unknown}");
    }

    #[test]
    fn other_refusals_have_the_code_and_message_of_their_response() {
        let (reason, detail) = of_refusal(&Refusal::RateLimited.row());
        assert_eq!((reason.as_str(), detail.as_deref()), ("rate_limited", Some("Too many reads per second")));
    }
}
