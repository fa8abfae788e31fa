//! Unusual input that the route accepts.

use super::ana;
use serde_json::json;
use tests::event::batch;
use tests::{World, event};

#[tokio::test]
async fn ignores_unknown_fields_anywhere() {
    let world = World::shared().await;
    let odd = ana()
        .with("correlationId", json!({"deep": [1, null]}))
        .with_actor("age", json!(41))
        .with("prototype", json!(null));
    let mut body: serde_json::Value = serde_json::from_slice(&batch(&[odd])).expect("a batch");
    body["sentBy"] = json!("partner");
    let response = world.http().send(&world.key.events(body.to_string())).await;
    assert_eq!(response.json()["accepted"], 1, "{response:?}");
    assert_eq!(response.json()["results"][0].get("warnings"), None, "{response:?}");
}

#[tokio::test]
async fn accepts_one_to_a_hundred_events() {
    let world = World::shared().await;
    let events: Vec<_> = (0..100).map(|i| ana().email(&format!("{i}@example.com"))).collect();
    let response = world.send(&events).await.json();
    assert_eq!(
        (&response["accepted"], &response["duplicate"], &response["failed"]),
        (&json!(100), &json!(0), &json!(0))
    );
    assert_eq!(world.results(&[ana()]).await.len(), 1);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 101);
}

#[tokio::test]
async fn accepts_instants_with_any_offset_and_fraction() {
    let world = World::shared().await;
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
    let entries = world.timeline(&client).await;
    assert_eq!(entries.len(), 5);
    for entry in entries {
        assert_eq!(entry["occurredAt"], "2026-05-01T10:00:00.000Z");
    }
}

#[tokio::test]
async fn stores_text_of_any_script_and_escaping_unchanged() {
    let world = World::shared().await;
    let name = "Žofia \"Zo\" O’Brien \\ 山田 🧳 \u{7}\u{1f}<b>'; DROP TABLE clients;--";
    let payload = json!({"note": name, "nested": {"é": [1.5, -0.0, 1e10, 12345678901234567890_u64]}});
    let result = world.accept(ana().name(name).payload(payload.clone())).await;
    assert_eq!(world.client(&result["clientId"]).await["name"], name);
    assert_eq!(world.timeline(&result["clientId"]).await[0]["payload"], payload);
}

#[tokio::test]
async fn accepts_any_payload_object_for_every_event_type() {
    let world = World::shared().await;
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
}
