//! The programs read exactly the bodies and payloads that the schemas take.

use super::cases::{Case, ID, TEXT, cases, name_of, named, typical_value};
use common::caller::Caller;
use common::event::{EventResult, EventStatus, InboundType, read_batch};
use common::model::{ClientId, KeyPrefix, Scopes, TenantId, text};
use common::record::{Attribution, ClientBody, Contact, LeadBody, LeadPatch, RecordBody, TripPatch, parse};
use common::trace::{RequestContext, TraceContext};
use serde_json::{Value, json};
use std::fmt::Debug;
use tests::api_description::validator;
use uuid::Uuid;
use worker::rules::events::apply;
use worker::rules::{Context, Event, NumberBlock};
use worker::state::{Tenant, TenantState};

fn document() -> Value {
    serde_json::from_str(ingest::docs::OPENAPI).expect("JSON")
}

/// The document with the batch as the events route accepts it. The served one describes what callers should send: events
/// whose payloads match the schemas of their types.
fn document_as_accepted() -> Value {
    let mut document = document();
    let items = &mut document["components"]["schemas"]["EventBatch"]["properties"]["events"]["items"];
    assert_eq!(*items, named("Event"));
    *items = named("InboundEvent");
    document
}

/// Checks that a reader takes exactly the cases that the schema takes.
#[track_caller]
fn assert_agree(name: &str, accepts: impl Fn(&[u8]) -> Result<(), String>) {
    let (document, schema) = (document_as_accepted(), named(name));
    let cases = cases(&document, &schema, &typical_value(&document, &schema));
    for Case { place, body, is_valid } in &cases {
        let read = accepts(body.to_string().as_bytes());
        assert_eq!(read.is_ok(), *is_valid, "{name}{place}: {read:?}\n{body}");
    }
    let valid = cases.iter().filter(|case| case.is_valid).count();
    assert!(valid > 10 && cases.len() - valid > 40, "{name}: {valid} of {} are valid", cases.len());
}

fn read<T: RecordBody + Debug>(body: &[u8]) -> Result<T, String> {
    parse::<T>(body).map_err(|refused| format!("{refused:?}"))
}

/// What the rules ask of a body beyond its fields (`identity_required`).
fn identified(is_identified: bool) -> Result<(), String> {
    is_identified.then_some(()).ok_or_else(|| "no identity".to_owned())
}

#[test]
fn record_bodies_are_parsed_exactly_as_their_schemas_say() {
    assert_agree("NewClient", |body| {
        let read = read::<ClientBody>(body)?;
        identified(read.email.is_sent() || read.phone.is_sent() || read.external_id.is_sent())
    });
    let names_somebody = |of: &Contact| of.email.is_sent() || of.phone.is_sent() || of.external_id.is_sent();
    assert_agree("NewLead", |body| {
        let read = read::<LeadBody>(body)?;
        // The rules know no client by another text, and say so with 404.
        if read.client_id.get().is_some_and(|id| ClientId::parse(id.as_str()).is_none()) {
            return Err("no client".to_owned());
        }
        identified(read.client_id.is_sent() || read.contact.get().is_some_and(names_somebody))
    });
    assert_agree("ClientChange", |body| read::<ClientBody>(body).map(drop));
    assert_agree("LeadChange", |body| read::<LeadPatch>(body).map(drop));
    assert_agree("TripChange", |body| read::<TripPatch>(body).map(drop));
}

#[test]
fn envelopes_are_parsed_exactly_as_their_schemas_say() {
    assert_agree("EventBatch", |body| {
        let batch: Value = serde_json::from_slice(body).expect("JSON");
        // Which tenant is right depends on the key: whatever text stands there is.
        let tenant = batch["events"][0]["tenant"].as_str().unwrap_or(TEXT).trim().to_lowercase();
        read_batch(body, &tenant).map(drop).map_err(|faults| faults.to_string())
    });
}

/// What `maxLength` counts is what was sent; what the readers count has been trimmed, where they trim.
#[test]
fn white_space_counts_around_prose_but_not_around_a_line() {
    let validator = validator(&document(), &named("TripChange"));
    let padded = |length: usize| format!(" {}\n", "x".repeat(length));
    for (body, schema_takes, is_read) in [
        (json!({"title": padded(200)}), false, true),
        (json!({"title": padded(198)}), true, true),
        (json!({"title": padded(201)}), false, false),
        (json!({"message": padded(10_000)}), false, false),
        (json!({"message": padded(9_998)}), true, true),
    ] {
        let by_reader = read::<TripPatch>(body.to_string().as_bytes());
        assert_eq!((validator.is_valid(&body), by_reader.is_ok()), (schema_takes, is_read), "{by_reader:?}");
    }
    let backwards = json!({"travelDates": {"startDate": "2026-05-02", "endDate": "2026-05-01"}});
    assert!(read::<TripPatch>(backwards.to_string().as_bytes()).is_err(), "a schema cannot say so");
}

/// The names of a struct's fields as they are on the wire.
fn fields(body: &impl Debug) -> Vec<String> {
    let camel = |name: &str| {
        let mut words = name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
    };
    let debug = format!("{body:#?}");
    let lines = debug
        .lines()
        .filter_map(|line| line.strip_prefix("    ").filter(|line| !line.starts_with([' ', '}', ')', ']'])));
    let mut names: Vec<_> = lines.filter_map(|line| line.split_once(": ")).map(|(name, _)| camel(name)).collect();
    names.sort_unstable();
    names
}

#[test]
fn every_field_of_a_body_is_documented() {
    let document = document();
    for (name, read) in [
        ("NewClient", fields(&ClientBody::default())),
        ("ClientChange", fields(&ClientBody::default())),
        ("NewLead", fields(&LeadBody::default())),
        ("LeadChange", fields(&LeadPatch::default())),
        ("TripChange", fields(&TripPatch::default())),
        ("Contact", fields(&Contact::default())),
        ("Attribution", fields(&Attribution::default())),
    ] {
        let properties = document["components"]["schemas"][name]["properties"].as_object().expect("fields");
        assert_eq!(properties.keys().collect::<Vec<_>>(), read.iter().collect::<Vec<_>>(), "{name}");
    }
}

/// The state of a tenant with Traveller Discovery enabled. All its records have the id, and all its texts the text, that the
/// cases use.
struct TenantFixture {
    state: TenantState,
    caller: Caller,
    numbers: NumberBlock,
    sent: i16,
}

impl TenantFixture {
    /// A tenant with a lead, its discovery, and a booking.
    fn new() -> Self {
        let (id, slug) = (TenantId(Uuid::nil()), "acme".to_owned());
        let tenant = Tenant {
            id,
            slug: slug.clone(),
            enquiry_prefix: "ENQ".to_owned(),
            discovery_enabled: true,
            has_subscriptions: true,
        };
        let caller = Caller {
            tenant_id: id,
            tenant: slug,
            key: KeyPrefix::parse("ck_test").expect("a prefix"),
            scopes: Scopes::parse(&["events:ingest", "credit:write"]).expect("scopes"),
            origin: None,
        };
        let state = TenantState::new(tenant, Vec::new());
        let mut fixture = Self { state, caller, numbers: NumberBlock::new(2026, 1..=100), sent: 0 };
        for (kind, payload) in [
            (InboundType::EnquirySubmitted, json!({"externalLeadId": TEXT})),
            (InboundType::DiscoveryUpserted, json!({})),
            (InboundType::BookingCompleted, json!({"bookingRef": TEXT})),
        ] {
            let result = fixture.send(kind, &payload);
            assert!(is_read(&result), "{kind}: {result:?}");
        }
        fixture
    }

    fn send(&mut self, kind: InboundType, payload: &Value) -> EventResult {
        self.sent += 1;
        let batch = json!({"events": [{
            "specVersion": "1.0", "eventId": format!("e-{}", self.sent), "eventType": kind.as_str(),
            "occurredAt": "2026-05-01T10:00:00Z", "tenant": "acme", "origin": "site",
            "actor": {"type": "contact", "email": "ana@example.com"}, "payload": payload,
        }]})
        .to_string();
        let envelopes = read_batch(batch.as_bytes(), "acme").expect("a valid batch");
        let (caller, envelope) = (self.caller.clone(), &envelopes[0]);
        let request_context = RequestContext { request_id: Uuid::nil(), context: TraceContext::begin(false) };
        let event = Event { caller: &caller, envelope, ordinal: self.sent, request_context };
        let now = "2026-05-01T12:00:00Z".parse().expect("an instant");
        let mut next_id = || Uuid::try_parse(ID).expect("an id");
        let mut ctx = Context { now, next_id: &mut next_id, numbers: &mut self.numbers, skip_discovery: false };
        apply(&mut self.state, &event, &mut ctx).expect("the rules do not fail")
    }
}

fn is_read(result: &EventResult) -> bool {
    result.status == EventStatus::Accepted && result.warnings.iter().all(|code| code == "no_open_enquiry")
}

/// Whether a payload names a record by text that does not exist, or by text beside an id, which is then not read. A schema
/// cannot express either.
fn names_another(body: &Value, field: &str) -> bool {
    let text = body[field].as_str().map(str::trim).filter(|text| !text.is_empty());
    text.is_some_and(|text| text != TEXT || body.get("tripId").is_some())
}

#[test]
fn payloads_are_read_without_a_warning_exactly_when_they_fit_their_schema() {
    let document = document();
    let credit = |name: Value| {
        let mut credit = json!({"appliedRupees": 1});
        credit.as_object_mut().expect("fields").extend(name.as_object().expect("fields").clone());
        credit
    };
    for kind in InboundType::ALL {
        let union = &document["components"]["schemas"]["Event"]["discriminator"]["mapping"][kind.as_str()];
        let event = document.pointer(&union.as_str().expect("a reference")[1..]).expect("an event");
        let payload = &event["properties"]["payload"];
        if name_of(payload) == "UnreadPayload" {
            let wrong = json!({"title": 1, "bookingRef": {}, "leadId": "none", "discovery": 1, "asOf": 1});
            assert!(is_read(&TenantFixture::new().send(*kind, &wrong)), "{kind}");
            continue;
        }
        // Each field by itself, or with the fields that it requires: of several names of a record only the first is read.
        let (name_of_record, bases) = match name_of(payload) {
            "BookingPayload" => ("externalLeadId", vec![json!({})]),
            "CompletedBookingPayload" => ("externalLeadId", vec![json!({"bookingRef": TEXT})]),
            "CreditAppliedPayload" => {
                ("bookingRef", [json!({"bookingRef": TEXT}), json!({"tripId": ID}), json!({})].map(credit).into())
            }
            "CreditUpdatedPayload" => ("", vec![json!({"asOf": "2026-05-01T10:00:00Z"})]),
            _ => ("", vec![json!({})]),
        };
        let cases = bases.iter().flat_map(|base| cases(&document, payload, base));
        // What isn't an object isn't a payload: its envelope is refused.
        let cases = cases.filter(|case| case.body.is_object() && !names_another(&case.body, name_of_record));
        let (mut valid, mut invalid) = (0, 0);
        for Case { place, body, is_valid } in cases {
            let result = TenantFixture::new().send(*kind, &body);
            assert_eq!(is_read(&result), is_valid, "{kind}{place}: {result:?}\n{body}");
            *(if is_valid { &mut valid } else { &mut invalid }) += 1;
        }
        assert!(valid > 10 && invalid > 10, "{kind}: {valid} valid, {invalid} invalid");
    }
}

/// An object's size is more than a schema can say; the schemas' texts do.
#[test]
fn profile_objects_are_read_up_to_the_documented_size() {
    let document = document();
    let said = format!("t most {} KiB of JSON", text::PROFILE_BYTES / 1024);
    let profile = &document["components"]["schemas"]["DiscoveryPayload"]["properties"]["profilePatch"];
    for field in ["constraints", "styleDefaults"] {
        let about = profile["properties"][field]["description"].as_str().expect("a text");
        assert!(about.contains(&said), "{about}");
        let frame = r#"{"a":""}"#.len();
        for (bytes, fits) in [(text::PROFILE_BYTES, true), (text::PROFILE_BYTES + 1, false)] {
            let body = json!({"profilePatch": {field: {"a": "x".repeat(bytes - frame)}}});
            let result = TenantFixture::new().send(InboundType::DiscoveryUpserted, &body);
            assert_eq!(is_read(&result), fits, "{field}, {bytes}: {:?}", result.warnings);
        }
    }
}
