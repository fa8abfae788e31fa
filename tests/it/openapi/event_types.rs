//! Events by type: the examples are applied as they are, and a payload of another type does not match.

use super::cases::{accepts, schema_named};
use super::document;
use common::event::InboundType;
use ingest::openapi;
use serde_json::{Value, json};
use tests::{World, text};

/// The example of each type, in the order of the document.
fn examples(document: &Value) -> Vec<(String, Value)> {
    let events = &document["paths"]["/api/v1/crm/connect/events"]["post"];
    let examples =
        events["requestBody"]["content"]["application/json"]["examples"].as_object().expect("examples");
    let of = |kind: &InboundType| (kind.to_string(), examples[kind.as_str()]["value"].clone());
    InboundType::ALL.iter().map(of).collect()
}

#[tokio::test]
async fn the_example_of_each_type_is_applied_without_a_warning() {
    let world = World::start().await;
    let key = world.add_tenant("demo").await;
    world.connectctl.json(&["tenant", "set", "--tenant", "demo", "--discovery", "true"]).await;
    let document = document(&world).await;
    for (kind, example) in examples(&document) {
        assert_eq!(text(&example["events"][0]["eventType"]), kind);
        let response = world.http().send(&key.events(example.to_string())).await.json();
        assert_eq!(response["accepted"], 1, "{kind}: {response}");
        assert_eq!(response["results"][0].get("warnings"), None, "{kind}: {response}");
    }
}

#[test]
fn the_example_of_each_type_matches_its_type_only_and_its_payload_is_checked() {
    let described = openapi::document();
    let served = serde_json::to_value(&described).expect("JSON");
    let union = schema_named(&described, "Event");
    for (kind, example) in examples(&served) {
        let event = &example["events"][0];
        let matching = union.one_of.iter().filter(|choice| accepts(&described, choice, event)).count();
        assert_eq!(matching, 1, "{kind}");
        let mut other = event.clone();
        other["payload"] = json!([]);
        assert!(!accepts(&described, union, &other), "{kind}");
    }
    for (kind, payload) in [
        ("enquiry.submitted", json!({"paxCount": "two"})),
        ("traveller.discovery_upserted", json!({"essence": 1})),
        ("booking.started", json!({"leadId": 7})),
        ("booking.completed", json!({"bookingRef": {}})),
        ("booking.credit_applied", json!({"bookingRef": "B-1"})),
        ("employee.credit_updated", json!({"availablePaise": 0.5, "asOf": "2026-05-01T10:00:00Z"})),
    ] {
        let (_, example) =
            examples(&served).into_iter().find(|(known, _)| known == kind).expect("an example");
        let mut event = example["events"][0].clone();
        event["payload"] = payload;
        assert!(!accepts(&described, union, &event), "{kind}");
        assert!(accepts(&described, schema_named(&described, "InboundEvent"), &event), "{kind} is accepted");
    }
}
