//! Opening, assigning and moving leads.

use super::{act, action, get, lead, open_lead, patch, send_action_as, trip, trip_route};
use crate::connectctl::fields;
use serde_json::json;
use tests::{World, event, text};

#[tokio::test]
async fn opens_a_lead_with_client_number_owner_and_trip() {
    let world = World::shared().await;
    let body =
        json!({"email": " Ana@Example.com ", "name": "Ana", "title": "Honeymoon", "destination": "Goa"});
    let reply = act(&world, "open-lead", body).await;
    assert_eq!(fields(&reply), ["clientId", "leadId", "ok", "proposalId", "stage", "tripId"]);
    let shown = lead(&world, &reply).await;
    assert_eq!((&shown["clientId"], &shown["tripId"]), (&reply["clientId"], &reply["tripId"]));
    assert_eq!((&shown["title"], &shown["destination"]), (&json!("Honeymoon"), &json!("Goa")));
    assert_eq!((&shown["stage"], &reply["stage"]), (&json!("inquiry"), &json!("inquiry")));
    assert!(text(&shown["enquiryNumber"]).starts_with("ENQ-"), "{shown}");
    let client = world.client(&reply["clientId"]).await;
    assert_eq!((&client["name"], &client["email"]), (&json!("Ana"), &json!("Ana@Example.com")));
    let [notifications] = &world.notifications().await[..] else { panic!("one notification") };
    let expected = (&json!("lead_assigned"), &shown["owner"]["email"]);
    assert_eq!((&notifications["kind"], &notifications["to"]), expected);
    assert_eq!(trip(&world, &reply).await["proposal"], json!({"status": "draft", "sentAt": null}));
}

#[tokio::test]
async fn opens_a_lead_without_a_trip_that_keeps_its_own_brief() {
    let world = World::shared().await;
    let body = json!({"email": "ana@example.com", "noTrip": true, "destination": "Goa"});
    let reply = act(&world, "open-lead", body).await;
    assert_eq!(fields(&reply), ["clientId", "leadId", "ok", "stage"]);
    assert_eq!(lead(&world, &reply).await["destination"], "Goa");
    get(&world, &trip_route(&reply)).await.assert_error(409, "trip_not_open");
    patch(&world, &trip_route(&reply), &json!({"title": "x"})).await.assert_error(409, "trip_not_open");
}

#[tokio::test]
async fn assigns_a_lead_and_notifies_the_new_owner() {
    let world = World::shared().await;
    let opened = open_lead(&world).await;
    let (before, trip_before) = (lead(&world, &opened).await, trip(&world, &opened).await);
    let other = if before["owner"]["email"] == "asha@acme.test" { "ben@acme.test" } else { "asha@acme.test" };
    for _ in 0..2 {
        act(&world, "assign", json!({"lead": opened["leadId"], "owner": other.to_uppercase()})).await;
    }
    let (after, trip_after) = (lead(&world, &opened).await, trip(&world, &opened).await);
    assert_eq!((&after["owner"]["email"], &trip_after["owner"]), (&json!(other), &after["owner"]));
    assert!(text(&after["updatedAt"]) > text(&before["updatedAt"]));
    assert!(text(&trip_after["updatedAt"]) > text(&trip_before["updatedAt"]));
    let notifications = world.notifications().await;
    assert_eq!(notifications.len(), 2, "the first owner, and the second once: {notifications:?}");
    assert_eq!((&notifications[1]["to"], &notifications[1]["leadId"]), (&json!(other), &opened["leadId"]));
}

#[tokio::test]
async fn an_archived_or_travelled_lead_is_closed_to_its_customer() {
    let world = World::shared().await;
    for (name, stage) in [("archive", "archived"), ("travelled", "travelled")] {
        let opened = open_lead(&world).await;
        assert_eq!(act(&world, name, json!({"lead": opened["leadId"]})).await["stage"], stage);
        let response = patch(&world, &trip_route(&opened), &json!({"message": "Hello"})).await;
        assert_eq!((response.status, &response.json()["stage"]), (409, &json!(stage)));
        let next = world.accept(event("traveller.discovery_upserted").email("ana@example.com")).await;
        assert_ne!(next["leadId"], opened["leadId"], "it is no longer an open lead");
        act(&world, "archive", json!({"lead": next["leadId"]})).await;
    }
}

#[tokio::test]
async fn an_action_is_in_the_ledger_but_not_on_the_timeline() {
    let world = World::shared().await;
    let reply =
        send_action_as(&world, "m-1", &action("open-lead", json!({"email": "ana@example.com"}))).await;
    let query = "SELECT event_id, event_type, key_prefix, client_id, lead_id, trip_id FROM event_ledger";
    let expected = json!({
        "event_id": "connect-api:crm:m-1", "event_type": "advisor.open-lead", "key_prefix": "crm",
        "client_id": reply["clientId"], "lead_id": reply["leadId"], "trip_id": reply["tripId"],
    });
    assert_eq!(world.database.rows(query, &[]).await, [expected]);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 0);
    assert_eq!(
        world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"],
        0,
        "actions are not metered"
    );
}
