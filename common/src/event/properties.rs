//! Properties of envelope validation (D6).

use super::{BATCH_MAX, InboundType, read_batch};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Fields of the envelope and of its actor whose absence, or another type, is a fault.
const REQUIRED: [&str; 7] = ["specVersion", "eventId", "eventType", "occurredAt", "tenant", "origin", "actor"];

/// Text without white space, which trimming would remove.
fn text() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9é☃_.-]{1,40}"
}

fn actor() -> impl Strategy<Value = Value> {
    let identity = prop_oneof![
        "[a-z0-9]{1,20}@[a-z]{1,10}\\.(com|org)".prop_map(|email| ("email", email)),
        "\\+?[0-9]{4,15}".prop_map(|phone| ("phone", phone)),
        text().prop_map(|id| ("externalId", id)),
    ];
    (identity, proptest::option::of(text())).prop_map(|((field, value), name)| {
        let mut actor = json!({"type": "contact", "name": name});
        actor[field] = value.into();
        actor
    })
}

/// Any JSON, nested a little.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text(), inner), 0..4).prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

fn envelope() -> impl Strategy<Value = Value> {
    let kinds = (0..InboundType::ALL.len()).prop_map(|i| InboundType::ALL[i].as_str());
    let payload = vec((text(), any_json()), 0..4).prop_map(|fields| fields.into_iter().collect::<Map<_, _>>());
    (text(), kinds, text(), actor(), proptest::option::of(payload), any_json()).prop_map(
        |(event_id, event_type, origin, actor, payload, unknown)| {
            json!({
                "specVersion": "1.0", "eventId": event_id, "eventType": event_type,
                "occurredAt": "2026-05-01T10:00:00+05:30", "tenant": " ACME ", "origin": origin, "actor": actor,
                "payload": payload, "unknown": unknown,
            })
        },
    )
}

fn body(events: &[Value]) -> Vec<u8> {
    json!({ "events": events }).to_string().into_bytes()
}

proptest! {
    #[test]
    fn a_valid_batch_is_read_as_it_was_sent(events in vec(envelope(), 1..=BATCH_MAX.min(8))) {
        let body = body(&events);
        let read = read_batch(&body, "acme").expect("a valid batch");
        prop_assert_eq!(read.len(), events.len());
        for (read, sent) in read.iter().zip(&events) {
            prop_assert_eq!(&read.event_id, sent["eventId"].as_str().unwrap());
            prop_assert_eq!(read.event_type.as_str(), sent["eventType"].as_str().unwrap());
            let payload = read.payload.map(|payload| serde_json::from_str::<Value>(payload.get()).unwrap());
            prop_assert_eq!(payload.unwrap_or(Value::Null), sent["payload"].clone());
            let actor = &read.actor;
            prop_assert!(actor.email.is_some() || actor.phone.is_some() || actor.external_id.is_some());
        }
    }

    #[test]
    fn rejects_the_batch_and_names_a_required_field_that_is_missing_or_of_a_wrong_type(
        mut events in vec(envelope(), 1..6),
        at in any::<prop::sample::Index>(),
        field in prop::sample::select(&REQUIRED[..]),
        instead in prop_oneof![Just(None), Just(Some(Value::Null)), Just(Some(json!(7))), Just(Some(json!([])))],
    ) {
        let at = at.index(events.len());
        let fields = events[at].as_object_mut().expect("an object");
        match instead {
            Some(value) => drop(fields.insert(field.to_owned(), value)),
            None => drop(fields.remove(field)),
        }
        let faults = read_batch(&body(&events), "acme").expect_err("one bad envelope refuses the batch");
        prop_assert_eq!(&faults.0[0].place, &format!("events[{at}].{field}"));
    }
}
