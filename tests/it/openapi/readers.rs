//! The parsers accept exactly the bodies that the schemas accept.

use super::cases::{Case, accepts, cases, document_as_accepted, schema_named, typical_value};
use common::event::{InboundType, parse_batch};
use common::record::{
    Attribution, ClientBody, Contact, LeadBody, LeadPatch, RecordBody, Traveler, TripPatch, parse,
};
use ingest::openapi;
use serde_json::{Value, json};
use std::fmt::Debug;

/// The `tenant` of an envelope that is made from its schema.
const TENANT: &str = super::cases::TEXT;

/// Checks that a reader takes exactly the cases that the schema takes.
#[track_caller]
fn assert_agree(name: &str, accepts: impl Fn(&[u8]) -> Result<(), String>) -> usize {
    let document = document_as_accepted();
    let cases = cases(&document, schema_named(&document, name));
    for Case { place, body, is_valid } in &cases {
        let read = accepts(body.to_string().as_bytes());
        assert_eq!(read.is_ok(), *is_valid, "{name}{place}: {read:?}\n{body}");
    }
    let valid = cases.iter().filter(|case| case.is_valid).count();
    assert!(valid > 5 && cases.len() - valid > 5, "{name}: {valid} of {} are valid", cases.len());
    cases.len()
}

fn read<T: RecordBody + Debug>(body: &[u8]) -> Result<(), String> {
    parse::<T>(body).map(drop).map_err(|refused| format!("{refused:?}"))
}

/// What the rules ask of a body beyond its fields (`identity_required`).
fn identified(is_identified: bool) -> Result<(), String> {
    is_identified.then_some(()).ok_or_else(|| "no identity".to_owned())
}

fn new_client(body: &[u8]) -> Result<(), String> {
    let read = parse::<ClientBody>(body).map_err(|refused| format!("{refused:?}"))?;
    identified(read.email.is_sent() || read.phone.is_sent() || read.external_id.is_sent())
}

fn new_lead(body: &[u8]) -> Result<(), String> {
    let read = parse::<LeadBody>(body).map_err(|refused| format!("{refused:?}"))?;
    let names_somebody = |contact: &Contact| {
        contact.email.is_sent() || contact.phone.is_sent() || contact.external_id.is_sent()
    };
    identified(read.client_id.is_sent() || read.contact.get().is_some_and(names_somebody))
}

#[test]
fn record_bodies_are_parsed_exactly_as_their_schemas_say() {
    let count = assert_agree("NewClient", new_client)
        + assert_agree("ClientChange", read::<ClientBody>)
        + assert_agree("NewLead", new_lead)
        + assert_agree("LeadChange", read::<LeadPatch>)
        + assert_agree("TripChange", read::<TripPatch>);
    assert!(count > 500, "{count}");
}

#[test]
fn rejects_empty_parts_and_accepts_a_single_date() {
    for (part, is_valid) in [
        (json!({"travelDates": {}}), false),
        (json!({"travelDates": {"endDate": "2026-05-01"}}), true),
        (json!({"travelDates": {"startDate": "2026-05-02", "endDate": "2026-05-01"}}), false),
        (json!({"budget": {"amount": 1}}), false),
        (json!({"budget": {"amount": 1, "currency": "EUR", "notes": "x"}}), false),
        (json!({}), true),
    ] {
        assert_eq!(read::<TripPatch>(part.to_string().as_bytes()).is_ok(), is_valid, "{part}");
    }
}

#[test]
fn envelopes_are_parsed_exactly_as_their_schemas_say() {
    let read = |body: &[u8]| {
        let batch: Value = serde_json::from_slice(body).unwrap();
        // Which tenant is right depends on the key: whatever text stands there is.
        let tenant = batch["events"][0]["tenant"].as_str().unwrap_or(TENANT).trim().to_lowercase();
        parse_batch(body, &tenant).map(drop).map_err(|faults| faults.to_string())
    };
    let count = assert_agree("EventBatch", read);
    assert!(count > 80, "{count}");
}

/// What `maxLength` counts is what was sent; what the readers count has been trimmed, where they trim.
#[test]
fn white_space_counts_around_prose_but_not_around_a_line() {
    let document = openapi::document();
    let padded = |length: usize| format!(" {}\n", "x".repeat(length));
    for (body, schema_takes, is_read) in [
        (json!({"title": padded(200)}), false, true),
        (json!({"title": padded(198)}), true, true),
        (json!({"title": padded(201)}), false, false),
        (json!({"message": padded(10_000)}), false, false),
        (json!({"message": padded(9_998)}), true, true),
    ] {
        let by_schema = accepts(&document, schema_named(&document, "TripChange"), &body);
        let by_reader = read::<TripPatch>(body.to_string().as_bytes());
        assert_eq!((by_schema, by_reader.is_ok()), (schema_takes, is_read), "{by_reader:?}");
    }
}

#[test]
fn an_envelope_requires_an_identity_and_an_unreserved_id() {
    let refusal = |field: &str, value: Value| {
        let document = document_as_accepted();
        let mut batch = typical_value(&document, schema_named(&document, "EventBatch"));
        batch["events"][0][field] = value;
        parse_batch(batch.to_string().as_bytes(), TENANT).map(drop).unwrap_err().to_string()
    };
    assert!(refusal("eventId", json!("connect-api:1")).contains("connect-api:"));
    for nobody in [
        json!({"type": "contact"}),
        json!({"type": "contact", "email": " ", "phone": "none", "externalId": null}),
    ] {
        assert!(refusal("actor", nobody).contains("email, phone, externalId"));
    }
}

/// A field that is added to a body doesn't compile until it is named here, and then has to be in the schema.
#[test]
fn every_field_of_a_body_is_documented() {
    let ClientBody {
        name: _,
        email: _,
        phone: _,
        company: _,
        external_id: _,
        marketing_opt_in: _,
        travelers: _,
    } = ClientBody::default();
    assert_fields(
        "NewClient",
        &["name", "email", "phone", "company", "externalId", "marketingOptIn", "travelers"],
    );
    let described = |Traveler { name: _, kind: _, age: _, email: _, phone: _ }: Traveler| ();
    let _ = described;
    assert_fields("Traveler", &["name", "type", "age", "email", "phone"]);
    let LeadBody {
        contact: _,
        client_id: _,
        external_id: _,
        title: _,
        destination: _,
        travel_dates: _,
        party: _,
        budget: _,
        guest_nationality: _,
        itinerary: _,
        message: _,
        attribution: _,
    } = LeadBody::default();
    let brief = ["title", "destination", "travelDates", "party", "budget", "guestNationality", "itinerary"];
    assert_fields(
        "NewLead",
        &[&["contact", "clientId", "externalId"][..], &brief, &["message", "attribution"]].concat(),
    );
    let LeadPatch { stage: _, reason: _, owner: _, follow_up: _, title: _ } = LeadPatch::default();
    assert_fields("LeadChange", &["stage", "reason", "owner", "followUp", "title"]);
    let TripPatch {
        title: _,
        destination: _,
        travel_dates: _,
        party: _,
        budget: _,
        guest_nationality: _,
        itinerary: _,
        message: _,
        change_summary: _,
    } = TripPatch::default();
    assert_fields("TripChange", &[&brief[..], &["message", "changeSummary"]].concat());
    let Contact { name: _, email: _, phone: _, external_id: _ } = Contact::default();
    assert_fields("Contact", &["name", "email", "phone", "externalId"]);
    let Attribution { source: _, medium: _, campaign: _, term: _, content: _, landing_path: _, referrer: _ } =
        Attribution::default();
    assert_fields(
        "Attribution",
        &["source", "medium", "campaign", "term", "content", "landingPath", "referrer"],
    );
}

#[track_caller]
fn assert_fields(name: &str, fields: &[&str]) {
    let document = openapi::document();
    let described: Vec<&str> =
        schema_named(&document, name).properties.iter().map(|(field, _)| *field).collect();
    assert_eq!(described, fields, "{name}");
}

#[test]
fn the_documented_event_types_are_those_that_are_parsed() {
    let document = openapi::document();
    let described = &schema_named(&document, "InboundEvent").property("eventType").unwrap().values;
    let types: Vec<Value> = InboundType::ALL.iter().map(|kind| json!(kind.as_str())).collect();
    assert_eq!(*described, types);
}
