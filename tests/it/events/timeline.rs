//! One timeline entry for every accepted event (D14), and the events that have no other effect.

use super::{ana, submit_enquiry};
use serde_json::json;
use tests::World;

#[tokio::test]
async fn every_accepted_event_appends_one_entry_with_its_payload_in_order() {
    let world = World::shared().await;
    let opened = submit_enquiry(&world, json!({"title": "First"})).await;
    world
        .accept(
            ana("booking.completed").payload(json!({"bookingRef": "BR-1", "amount": 5, "currency": "INR"})),
        )
        .await;
    let before = world.timeline(&opened["clientId"]).await.len();
    let kinds: Vec<&str> = common::event::InboundType::ALL.iter().map(|kind| kind.as_str()).collect();
    let events: Vec<_> = kinds
        .iter()
        .enumerate()
        .map(|(i, kind)| {
            let payload = json!({"n": i, "bookingRef": "BR-1", "appliedRupees": 0, "asOf": "2026-05-01T10:00:00Z", "deep": {"z": 1.50, "a": [null]}});
            ana(kind).with("occurredAt", json!(format!("2026-05-01T10:00:{i:02}.250Z"))).payload(payload)
        })
        .collect();
    let results = world.results(&events).await;
    let entries = world.timeline(&opened["clientId"]).await.split_off(before);
    assert_eq!(entries.len(), kinds.len());
    for (((entry, event), result), kind) in entries.iter().zip(&events).zip(&results).zip(&kinds) {
        let sent = event.to_json();
        assert_eq!(result["status"], "accepted", "{kind}: {result}");
        assert_eq!((&entry["eventId"], &entry["eventType"]), (&sent["eventId"], &json!(kind)));
        assert_eq!((&entry["occurredAt"], &entry["origin"]), (&sent["occurredAt"], &sent["origin"]));
        assert_eq!(entry["payload"], sent["payload"], "{kind}");
    }
}

#[tokio::test]
async fn stores_a_payload_byte_for_byte() {
    let world = World::shared().await;
    let sent = r#"{ "b":1.50,  "a" : [1e2, "\u00e9\/"], "b" : 0.1000000000000000055, "z":null }"#;
    let body = String::from_utf8(tests::event::batch(&[ana("quote.requested").payload(json!("PAYLOAD"))]));
    let body = body.expect("text").replace("\"PAYLOAD\"", sent);
    let response = world.http().send(&world.key.events(body)).await;
    assert_eq!(response.json()["accepted"], 1, "{response:?}");
    let stored = world.database.rows("SELECT payload::text AS payload FROM timeline", &[]).await;
    assert_eq!(stored, [json!({"payload": sent})]);
}
