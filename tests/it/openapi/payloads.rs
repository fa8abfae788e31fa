//! The rules read a payload without a warning exactly when its schema accepts it.

use super::cases::{Case, ID, TEXT, accepts, cases_of, schema_named};
use common::caller::Caller;
use common::event::{EventResult, EventStatus, InboundType, parse_batch};
use common::model::{KeyPrefix, Scopes, TenantId, text};
use ingest::openapi;
use serde_json::{Value, json};
use uuid::Uuid;
use worker::rules::events::apply;
use worker::rules::{Context, Event, NumberBlock};
use worker::state::{Tenant, TenantState};

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
        let envelopes = parse_batch(batch.as_bytes(), "acme").expect("a valid batch");
        let (caller, envelope) = (self.caller.clone(), &envelopes[0]);
        let event = Event {
            caller: &caller,
            envelope,
            request_id: Uuid::nil(),
            ordinal: self.sent,
            request_context: None,
        };
        let now = "2026-05-01T12:00:00Z".parse().expect("an instant");
        let mut next_id = || Uuid::try_parse(ID).expect("an id");
        let mut ctx =
            Context { now, next_id: &mut next_id, numbers: &mut self.numbers, skip_discovery: false };
        apply(&mut self.state, &event, &mut ctx).expect("the rules do not fail")
    }
}

/// Whether all of an event was read.
fn is_read(result: &EventResult) -> bool {
    result.status == EventStatus::Accepted && result.warnings.is_empty()
}

/// Whether a payload names a record by text that does not exist, or by text beside an id, which is then not read. A schema
/// cannot express either.
fn names_another(body: &Value, names: &[&str]) -> bool {
    let texts = || names.iter().filter_map(|name| body[name].as_str()).map(str::trim);
    let has_id = body.get("tripId").is_some();
    texts().any(|text| !text.is_empty() && (text != TEXT || has_id))
}

/// Checks that the rules read what the type's schema takes, of bodies that differ in a place from one of `bases`.
/// `names` are fields that name a record in words.
#[track_caller]
fn assert_agree(kind: InboundType, name: &str, names: &[&str], bases: &[Value]) {
    let document = openapi::document();
    let schema = schema_named(&document, name);
    let cases: Vec<Case> = bases.iter().flat_map(|base| cases_of(&document, schema, base)).collect();
    // What isn't an object isn't a payload: its envelope is refused.
    let cases = cases.iter().filter(|case| case.body.is_object() && !names_another(&case.body, names));
    let (mut valid, mut invalid) = (0, 0);
    for Case { place, body, is_valid } in cases {
        let result = TenantFixture::new().send(kind, body);
        assert_eq!(is_read(&result), *is_valid, "{kind}{place}: {result:?}\n{body}");
        *(if *is_valid { &mut valid } else { &mut invalid }) += 1;
    }
    assert!(valid > 10 && invalid > 10, "{kind}: {valid} valid, {invalid} invalid");
}

/// The fields of both.
fn merged(one: &Value, other: &Value) -> Value {
    let fields = [one, other].into_iter().filter_map(Value::as_object).flatten();
    Value::Object(fields.map(|(name, value)| (name.clone(), value.clone())).collect())
}

#[test]
fn payloads_are_read_without_a_warning_exactly_when_they_fit_their_schema() {
    let nothing = || json!({});
    let (booking, as_of) = (json!({"bookingRef": TEXT}), json!({"asOf": "2026-05-01T10:00:00Z"}));
    let credit = json!({"appliedRupees": 1});
    let credits =
        [json!({"bookingRef": TEXT}), json!({"tripId": ID}), nothing()].map(|name| merged(&credit, &name));
    let credits = Vec::from(credits);
    // Each field by itself, or with the fields that it requires: of several names of a record only the first is read.
    for (kind, names, bases) in [
        (InboundType::EnquirySubmitted, &[][..], vec![nothing()]),
        (InboundType::DiscoveryUpserted, &[], vec![nothing()]),
        (InboundType::BookingStarted, &["externalLeadId"], vec![nothing()]),
        (InboundType::BookingAbandoned, &["externalLeadId"], vec![nothing()]),
        (InboundType::BookingCompleted, &["externalLeadId"], vec![booking]),
        (InboundType::BookingCreditApplied, &["bookingRef"], credits),
        (InboundType::EmployeeCreditUpdated, &[], vec![as_of]),
    ] {
        let document = openapi::document();
        let envelope = schema_named(&document, "InboundEvent").property("payload").expect("a payload");
        let (_, path) = envelope.payloads.iter().find(|(name, _)| *name == kind.as_str()).expect("a schema");
        assert_agree(kind, path.0, names, &bases);
    }
}

#[test]
fn payloads_of_types_without_a_schema_are_not_read() {
    let document = openapi::document();
    let envelope = schema_named(&document, "InboundEvent").property("payload").expect("a payload");
    let has_schema = |kind: &InboundType| envelope.payloads.iter().any(|(name, _)| *name == kind.as_str());
    let others: Vec<_> = InboundType::ALL.iter().filter(|kind| !has_schema(kind)).collect();
    assert_eq!(others.len(), 5);
    for kind in others {
        let wrong = json!({"title": 1, "bookingRef": {}, "leadId": "none", "discovery": 1, "asOf": 1});
        let result = TenantFixture::new().send(*kind, &wrong);
        assert!(is_read(&result), "{result:?}");
    }
}

/// An object's size is more than a schema can say; the schemas' texts do.
#[test]
fn profile_objects_are_read_up_to_the_documented_size() {
    let document = openapi::document();
    let said = format!("At most {} KiB", text::PROFILE_BYTES / 1024);
    for field in ["constraints", "styleDefaults"] {
        let payload = schema_named(&document, "DiscoveryPayload");
        let profile = payload.property("profilePatch").expect("a profile");
        let about = &profile.property(field).expect("a field").description;
        assert!(about.to_lowercase().contains(&said.to_lowercase()), "{about}");
        let frame = r#"{"a":""}"#.len();
        for (bytes, fits) in [(text::PROFILE_BYTES, true), (text::PROFILE_BYTES + 1, false)] {
            let body = json!({"profilePatch": {field: {"a": "x".repeat(bytes - frame)}}});
            assert!(accepts(&document, payload, &body));
            let result = TenantFixture::new().send(InboundType::DiscoveryUpserted, &body);
            assert_eq!(is_read(&result), fits, "{field}, {bytes}: {:?}", result.warnings);
        }
    }
}
