//! What the route is lenient about.

use super::ana;
use serde_json::json;
use tests::event::batch;
use tests::{World, event};

#[tokio::test]
async fn unknown_fields_are_ignored_wherever_they_stand() {
    let world = World::start().await;
    let odd = ana()
        .with("correlationId", json!({"deep": [1, null]}))
        .with_actor("age", json!(41))
        .with("prototype", json!(null));
    let mut body: serde_json::Value = serde_json::from_slice(&batch(&[odd])).expect("a batch");
    body["sentBy"] = json!("partner");
    let answer = world.http().send(&world.key.events(body.to_string())).await;
    assert_eq!(answer.json()["accepted"], 1, "{answer:?}");
}

#[tokio::test]
async fn a_batch_may_have_one_to_a_hundred_events() {
    let world = World::start().await;
    let events: Vec<_> = (0..100).map(|i| ana().email(&format!("{i}@example.com"))).collect();
    let answer = world.send(&events).await.json();
    assert_eq!(
        (&answer["accepted"], &answer["duplicate"], &answer["failed"]),
        (&json!(100), &json!(0), &json!(0))
    );
    assert_eq!(world.results(&[ana()]).await.len(), 1);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 101);
}

#[tokio::test]
async fn instants_are_taken_with_any_offset_and_fraction() {
    let world = World::start().await;
    let mut client = json!(null);
    for instant in [
        "2026-05-01T10:00:00Z",
        "2026-05-01t10:00:00z",
        "2026-05-01T12:00:00+02:00",
        "2026-05-01T10:00:00.000Z",
        "2026-05-01T05:30:00.000000000-04:30",
    ] {
        client = world.accept(ana().with("occurredAt", json!(instant))).await["clientId"].clone();
    }
    for entry in world.timeline(&client).await {
        assert_eq!(entry["occurredAt"], "2026-05-01T10:00:00.000Z");
    }
}

#[tokio::test]
async fn the_tenant_compares_trimmed_and_in_either_case() {
    let world = World::start().await;
    for tenant in ["acme", "ACME", "  Acme\n"] {
        world.accept(ana().tenant(tenant)).await;
    }
}

#[tokio::test]
async fn text_of_any_script_and_escaping_comes_through_unchanged() {
    let world = World::start().await;
    let name = "Žofia \"Zo\" O’Brien \\ 山田 🧳 \u{7}\u{1f}<b>'; DROP TABLE clients;--";
    let payload = json!({"note": name, "nested": {"é": [1.5, -0.0, 1e10, 12345678901234567890_u64]}});
    let result = world.accept(ana().name(name).payload(payload.clone())).await;
    assert_eq!(world.client(&result["clientId"]).await["name"], name);
    assert_eq!(world.timeline(&result["clientId"]).await[0]["payload"], payload);
}

#[tokio::test]
async fn a_payload_of_every_event_type_may_hold_anything() {
    let world = World::start().await;
    let strange = json!({"travelDates": 5, "party": [], "budget": {"amount": {}}, "attribution": "x", "externalLeadId": [],
        "itinerarySnapshot": 1, "discovery": "x", "profilePatch": [], "essence": {}, "bookingRef": {}, "leadId": 1,
        "tripId": [], "hosTripDiscoveryId": false, "asOf": "never", "availablePaise": "many", "requestedRupees": -1});
    let events: Vec<_> = common::event::InboundType::ALL
        .iter()
        .map(|kind| event(kind.as_str()).email("ana@example.com").payload(strange.clone()))
        .collect();
    for result in world.results(&events).await {
        assert_ne!(result["error"], "internal_error", "{result}");
    }
    assert_eq!(world.queues.depth("events.dead").await, 0);
}
