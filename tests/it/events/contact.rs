//! `contact.identified` and `contact.updated`.

use super::{ana, ids, warnings};
use serde_json::json;
use tests::{World, event};

#[tokio::test]
async fn identified_creates_a_client_and_opens_no_lead() {
    let world = World::shared().await;
    let sent = ana("contact.identified").name("Ana Silva").phone("+351 91-234").external_id("p-1");
    let result = world.accept(sent.payload(json!({"page": "/goa"}))).await;
    assert_eq!(ids(&result)[1..], [json!(null), json!(null)], "{result}");
    let client = world.client(&result["clientId"]).await;
    assert_eq!(client["name"], "Ana Silva");
    assert_eq!(client["email"], "ana@example.com");
    assert_eq!(client["phone"], "+351 91-234");
    assert_eq!(client["external_id"], "p-1");
    assert_eq!(client["client_type"], "individual");
    assert_eq!(world.timeline(&result["clientId"]).await.len(), 1);
    assert!(world.pipeline(&[]).await.is_empty() && world.notifications().await.is_empty());
}

#[tokio::test]
async fn updated_finds_its_contact_by_external_id_or_phone_and_cannot_change_an_email() {
    let world = World::shared().await;
    let id =
        world.accept(ana("contact.identified").phone("+1 (555) 010").external_id("p-1")).await["clientId"]
            .clone();
    let by_id = world.accept(event("contact.updated").external_id("p-1").name("By id")).await;
    let by_phone = world.accept(event("contact.updated").phone("1555010").name("By phone")).await;
    assert_eq!([&by_id["clientId"], &by_phone["clientId"]], [&id, &id]);
    // With an email it is matched by that one, which nobody has.
    let other =
        world.result(event("contact.updated").email("new@example.com").external_id("p-1").name("X")).await;
    assert_eq!(other["error"], "contact_not_found");
    let client = world.client(&id).await;
    assert_eq!((&client["email"], &client["name"]), (&json!("ana@example.com"), &json!("By phone")));
}

#[tokio::test]
async fn updated_never_creates_a_client_and_can_be_resent_later() {
    let world = World::shared().await;
    let update = ana("contact.updated").id("u-1").name("Ana Silva");
    for _ in 0..2 {
        let failed = world.result(update.clone()).await;
        assert_eq!((&failed["status"], &failed["error"]), (&json!("failed"), &json!("contact_not_found")));
        assert_eq!(failed.get("clientId"), None);
    }
    for table in ["clients", "timeline", "event_ledger"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    world.accept(ana("contact.identified")).await;
    let result = world.accept(update.clone()).await;
    assert_eq!(world.client(&result["clientId"]).await["name"], "Ana Silva");
    assert_eq!(world.result(update).await["status"], "duplicate");
}

#[tokio::test]
async fn every_other_event_upserts_its_contact() {
    let world = World::shared().await;
    for (count, event_type) in [
        "enquiry.submitted",
        "traveller.discovery_upserted",
        "trip.planning_started",
        "trip.draft_updated",
        "quote.requested",
        "booking.started",
        "booking.abandoned",
        "booking.completed",
        "employee.credit_updated",
    ]
    .into_iter()
    .enumerate()
    {
        let email = format!("{count}@example.com");
        let payload = json!({"asOf": "2026-05-01T10:00:00Z"});
        let made = world.accept(event(event_type).email(&email).name("First").payload(payload.clone())).await;
        let changed = world.accept(event(event_type).email(&email).name("Second").payload(payload)).await;
        assert_eq!(made["clientId"], changed["clientId"], "{event_type}");
        assert_eq!(world.client(&made["clientId"]).await["name"], "Second", "{event_type}");
        assert!(warnings(&made).is_empty(), "{made}");
    }
}
