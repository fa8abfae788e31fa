//! Each event type of the specification has a schema of its own, and unions tell them apart.

use super::named;
use crate::openapi;
use crate::openapi::schema::Schema;
use serde_json::{Value, json};

/// The inbound types of the specification, each with the schema of its payload.
const INBOUND: [(&str, &str); 12] = [
    ("contact.identified", "UnreadPayload"),
    ("contact.updated", "UnreadPayload"),
    ("enquiry.submitted", "EnquiryPayload"),
    ("traveller.discovery_upserted", "DiscoveryPayload"),
    ("trip.planning_started", "UnreadPayload"),
    ("trip.draft_updated", "UnreadPayload"),
    ("quote.requested", "UnreadPayload"),
    ("booking.started", "BookingPayload"),
    ("booking.abandoned", "BookingPayload"),
    ("booking.completed", "CompletedBookingPayload"),
    ("booking.credit_applied", "CreditAppliedPayload"),
    ("employee.credit_updated", "CreditUpdatedPayload"),
];

/// The outbound types that are emitted.
const OUTBOUND: [&str; 6] = [
    "lead.assigned",
    "lead.stage_changed",
    "proposal.sent",
    "proposal.viewed",
    "booking.confirmed",
    "booking.cancelled",
];

/// The schemas of a union by the value of `eventType`. Its choices are those of the discriminator.
fn by_type(union: &Schema) -> Vec<(&'static str, &'static str)> {
    let discriminator = union.discriminator.as_ref().unwrap();
    assert_eq!(discriminator.property_name, "eventType");
    let mapping: Vec<_> = discriminator.mapping.iter().map(|(value, path)| (*value, path.0)).collect();
    let choices = union.one_of.iter().map(|choice| choice.reference.as_deref().unwrap());
    assert_eq!(choices.collect::<Vec<_>>(), mapping.iter().map(|(_, name)| *name).collect::<Vec<_>>());
    mapping
}

#[test]
fn every_inbound_type_of_the_specification_has_its_payload() {
    let document = openapi::document();
    let described = by_type(named(&document, "Event"));
    assert_eq!(described.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), INBOUND.map(|(kind, _)| kind));
    for ((kind, name), (_, payload)) in described.into_iter().zip(INBOUND) {
        let event = named(&document, name);
        assert_eq!(event.property("eventType").unwrap().constant, Some(json!(kind)));
        assert_eq!(event.property("payload").unwrap().reference.as_deref(), Some(payload), "{kind}");
        let envelope = named(&document, "InboundEvent");
        for (field, schema) in &envelope.properties {
            let is_narrowed = ["eventType", "payload"].contains(field);
            assert_eq!(event.property(field) == Some(schema), !is_narrowed, "{kind}: {field}");
        }
        assert!(event.required.starts_with(&envelope.required), "{kind}");
        assert!(named(&document, payload).types.contains(&"object"), "{payload}");
    }
}

#[test]
fn every_outbound_type_of_the_specification_has_its_payload() {
    let document = openapi::document();
    let described = by_type(named(&document, "OutboundEvent"));
    assert_eq!(described.iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), OUTBOUND);
    for (kind, name) in described {
        let event = named(&document, name);
        assert_eq!(event.property("eventType").unwrap().constant, Some(json!(kind)));
        assert!(event.property("payload").unwrap().properties.len() >= 6, "{kind}");
    }
}

/// What openapi-python-client and openapi-typescript type completely: a union by a field with one value in each of its schemas,
/// which are whole objects. The first one leaves out schemas that extend others, and the fields beside alternatives.
#[test]
fn schemas_have_the_form_that_generators_of_clients_type_completely() {
    fn check(place: &str, schema: &Value, faults: &mut Vec<String>) {
        if schema["properties"].is_object() && ["anyOf", "oneOf"].iter().any(|name| schema[name].is_array()) {
            faults.push(format!("{place}: alternatives beside fields"));
        }
        if schema["allOf"].as_array().is_some_and(|parts| parts.iter().any(|part| part["$ref"].is_string())) {
            faults.push(format!("{place}: extends another schema"));
        }
        let fields = schema.as_object().into_iter().flatten().map(|(name, value)| (name.clone(), value));
        let items = schema.as_array().into_iter().flatten().enumerate();
        for (name, value) in fields.chain(items.map(|(index, value)| (index.to_string(), value))) {
            check(&format!("{place}/{name}"), value, faults);
        }
    }
    let document = openapi::document();
    let mut faults = Vec::new();
    check("", &serde_json::to_value(&document).unwrap()["components"]["schemas"], &mut faults);
    assert_eq!(faults, Vec::<String>::new());
    for union in ["Event", "OutboundEvent"] {
        for (kind, name) in by_type(named(&document, union)) {
            let event_type = named(&document, name).property("eventType").unwrap();
            assert_eq!((&event_type.types[..], &event_type.constant), (&["string"][..], &Some(json!(kind))));
            assert!(named(&document, name).required.contains(&"eventType"), "{name}");
        }
    }
}

#[test]
fn the_document_names_a_contact_and_what_requests_need_by_default() {
    let json = serde_json::to_value(openapi::document()).unwrap();
    assert!(json["info"]["contact"]["name"].as_str().unwrap().contains("operator"));
    let needed = json["security"][0].as_object().unwrap();
    assert_eq!(needed.keys().collect::<Vec<_>>(), ["ConnectKey", "ConnectSignatureV2", "ConnectTenant"]);
}
