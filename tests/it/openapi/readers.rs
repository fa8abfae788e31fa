//! What the schemas of bodies take is what the readers of bodies take.

use super::cases::{Case, cases};
use super::named;
use crate::openapi;
use common::event::{InboundType, parse_batch};
use common::record::{
    Attribution, ClientBody, Contact, LeadBody, LeadPatch, RecordBody, Traveler, TripPatch, parse,
};
use serde_json::{Value, json};
use std::fmt::Debug;

/// Checks that a reader takes exactly the cases that the schema takes.
#[track_caller]
fn assert_agree(name: &str, takes: impl Fn(&[u8]) -> Result<(), String>) -> usize {
    let document = openapi::document();
    let cases = cases(&document, named(&document, name));
    for Case { place, body, is_valid } in &cases {
        let read = takes(body.to_string().as_bytes());
        assert_eq!(read.is_ok(), *is_valid, "{name}{place}: {read:?}\n{body}");
    }
    cases.len()
}

fn read<T: RecordBody + Debug>(body: &[u8]) -> Result<(), String> {
    parse::<T>(body).map(drop).map_err(|refused| format!("{refused:?}"))
}

#[test]
fn the_bodies_of_records_are_read_as_their_schemas_say() {
    let count = assert_agree("NewClient", read::<ClientBody>)
        + assert_agree("ClientChange", read::<ClientBody>)
        + assert_agree("NewLead", read::<LeadBody>)
        + assert_agree("LeadChange", read::<LeadPatch>)
        + assert_agree("TripChange", read::<TripPatch>);
    assert!(count > 500, "{count}");
}

#[test]
fn parts_that_state_nothing_are_refused_and_one_date_is_enough() {
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
fn envelopes_are_read_as_their_schemas_say() {
    let read = |body: &[u8]| {
        let batch: Value = serde_json::from_slice(body).unwrap();
        // Which tenant is right depends on the key: whatever text stands there is.
        let tenant = batch["events"][0]["tenant"].as_str().unwrap_or("demo").trim().to_lowercase();
        parse_batch(body, &tenant).map(drop).map_err(|faults| faults.to_string())
    };
    let count = assert_agree("EventBatch", read);
    assert!(count > 80, "{count}");
}

#[test]
fn an_envelope_needs_an_identity_and_an_id_that_is_not_reserved() {
    let refusal = |field: &str, value: Value| {
        let mut batch: Value = serde_json::from_str(include_str!("../examples/send_events.json")).unwrap();
        batch["events"][0][field] = value;
        parse_batch(batch.to_string().as_bytes(), "demo").map(drop).unwrap_err().to_string()
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
fn no_field_of_a_body_is_left_undescribed() {
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
    let described: Vec<&str> = named(&document, name).properties.iter().map(|(field, _)| *field).collect();
    assert_eq!(described, fields, "{name}");
}

#[test]
fn the_event_types_are_those_that_are_read() {
    let document = openapi::document();
    let described = &named(&document, "InboundEvent").property("eventType").unwrap().values;
    let types: Vec<Value> = InboundType::ALL.iter().map(|kind| json!(kind.as_str())).collect();
    assert_eq!(*described, types);
}
