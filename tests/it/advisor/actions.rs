//! What actions do: opening, assigning and moving leads; proposals, and whether a customer's new itinerary is then
//! applied (D20); bookings, confirmed and cancelled (D12, D25).

use super::{
    act, action, event_types, get, lead, open_lead, patch, send_action, send_action_as, take_emitted, trip, trip_route,
};
use crate::connectctl::fields;
use serde_json::{Value, json};
use tests::{UNREACHED_RECEIVER, World, event, text};

#[tokio::test]
async fn opens_a_lead_with_client_number_owner_and_trip() {
    let world = World::shared().await;
    let body = json!({"email": " Ana@Example.com ", "name": "Ana", "title": "Honeymoon", "destination": "Goa"});
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
    act(&world, "archive", json!({"lead": reply["leadId"]})).await;
    let closed = patch(&world, &trip_route(&reply), &json!({"title": "x"})).await;
    assert_eq!((closed.status, &closed.json()["code"]), (409, &json!("trip_closed")), "{closed:?}");
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
    let reply = send_action_as(&world, "m-1", &action("open-lead", json!({"email": "ana@example.com"}))).await;
    let query = "SELECT event_id, event_type, key_prefix, client_id, lead_id, trip_id FROM event_ledger";
    let expected = json!({
        "event_id": "connect-api:crm:m-1", "event_type": "advisor.open-lead", "key_prefix": "crm",
        "client_id": reply["clientId"], "lead_id": reply["leadId"], "trip_id": reply["tripId"],
    });
    assert_eq!(world.database.rows(query, &[]).await, [expected]);
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 0);
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], 0, "actions are not metered");
}

fn offer(opened: &Value) -> Value {
    let url = "https://proposals.example/p/1#start";
    json!({"lead": opened["leadId"], "title": "Goa in May", "url": url, "channel": "email"})
}

/// Sends a new itinerary and returns the reason why it was not applied, or null if it was.
async fn new_itinerary(world: &World, opened: &Value) -> Value {
    let itinerary = json!({"title": "New", "days": []});
    let response = patch(world, &trip_route(opened), &json!({"itinerary": itinerary})).await.assert_status(200);
    let data = response.json()["data"].clone();
    let reason = data.get("itineraryNotAppliedReason").cloned().unwrap_or_default();
    assert_eq!(data["itineraryApplied"], json!(reason.is_null()), "{data}");
    reason
}

async fn stored(world: &World) -> Value {
    let query = "SELECT proposal_id, status, title, url, channel, sent_at, viewed_at FROM proposals";
    let mut rows = world.database.rows(query, &[]).await;
    assert_eq!(rows.len(), 1);
    rows.remove(0)
}

#[tokio::test]
async fn a_sent_proposal_is_shown_as_sent_and_keeps_title_url_and_channel() {
    let world = World::shared().await;
    let opened = open_lead(&world).await;
    let (before, trip_before) = (lead(&world, &opened).await, trip(&world, &opened).await);
    let reply = act(&world, "proposal-send", offer(&opened)).await;
    assert_eq!((&reply["proposalId"], &reply["stage"]), (&opened["proposalId"], &json!("inquiry")));
    let (after, trip_after) = (lead(&world, &opened).await, trip(&world, &opened).await);
    assert_eq!(trip_after["proposal"]["status"], "sent");
    assert_eq!(trip_after["proposal"]["sentAt"], trip_after["updatedAt"], "sending it was the last change");
    assert!(text(&after["updatedAt"]) > text(&before["updatedAt"]));
    assert!(text(&trip_after["updatedAt"]) > text(&trip_before["updatedAt"]));
    let stored = stored(&world).await;
    assert_eq!(stored["proposal_id"], opened["proposalId"]);
    assert_eq!(
        [&stored["title"], &stored["url"], &stored["channel"], &stored["viewed_at"]],
        [&json!("Goa in May"), &json!("https://proposals.example/p/1#start"), &json!("email"), &json!(null)]
    );
}

#[tokio::test]
async fn the_state_of_the_proposal_decides_whether_a_new_itinerary_is_applied() {
    let world = World::shared().await;
    let opened = open_lead(&world).await;
    let named = json!({"lead": opened["leadId"]});
    assert_eq!(new_itinerary(&world, &opened).await, json!(null), "the draft is replaced");
    act(&world, "stage", json!({"lead": opened["leadId"], "stage": "building_proposal"})).await;
    assert_eq!(new_itinerary(&world, &opened).await, "advisor_working");
    act(&world, "stage", json!({"lead": opened["leadId"], "stage": "follow_up"})).await;
    assert_eq!(new_itinerary(&world, &opened).await, json!(null));
    act(&world, "proposal-send", offer(&opened)).await;
    assert_eq!(new_itinerary(&world, &opened).await, "proposal_sent");
    act(&world, "proposal-view", named.clone()).await;
    assert_eq!(new_itinerary(&world, &opened).await, "proposal_sent");
    act(&world, "proposal-discard", named).await;
    assert_eq!(new_itinerary(&world, &opened).await, "no_proposal");
    act(&world, "proposal-send", offer(&opened)).await;
    assert_eq!(new_itinerary(&world, &opened).await, "proposal_sent");
}

fn booking(opened: &Value, booking_ref: &str) -> Value {
    json!({"lead": opened["leadId"], "bookingRef": booking_ref, "amount": "1234.50", "currency": "INR", "creditUsed": 200})
}

async fn cancelled(world: &World) -> Vec<Value> {
    let query = "SELECT booking_ref FROM invoices WHERE cancelled_at IS NOT NULL ORDER BY booking_ref";
    world.database.rows(query, &[]).await.iter().map(|row| row["booking_ref"].clone()).collect()
}

#[tokio::test]
async fn a_booking_books_the_lead_and_is_cancelled_once_while_the_stage_stays() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let opened = open_lead(&world).await;
    let reply = act(&world, "booking-confirm", booking(&opened, " BR-1 ")).await;
    assert_eq!((&reply["bookingRef"], &reply["stage"]), (&json!("BR-1"), &json!("trip_booked")));
    act(&world, "booking-confirm", booking(&opened, "BR-2")).await;
    let expected = json!({
        "bookingRef": "BR-1", "amount": 1234.5, "currency": "INR", "creditUsed": 200, "creditApplied": null,
        "creditState": "pending", "balanceDue": 0,
    });
    assert!(world.invoices(&opened["leadId"]).await.contains(&expected));
    take_emitted(&world).await;
    let mut expected = lead(&world, &opened).await;
    for reason in ["illness", "another one"] {
        let reply = act(&world, "booking-cancel", json!({"bookingRef": "BR-1", "reason": reason})).await;
        assert_eq!((&reply["leadId"], &reply["stage"]), (&opened["leadId"], &json!("trip_booked")));
    }
    assert_eq!(cancelled(&world).await, ["BR-1"]);
    let told = take_emitted(&world).await;
    assert_eq!(event_types(&told), ["booking.cancelled"]);
    expected["updatedAt"] = told[0]["envelope"]["payload"]["version"].clone();
    assert_eq!(lead(&world, &opened).await, expected);
    assert_eq!(told[0]["envelope"]["payload"]["reason"], "illness");
}

#[tokio::test]
async fn concurrent_confirmations_of_one_reference_create_one_booking() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let (one, other) = (open_lead(&world).await, open_lead(&world).await);
    for round in 0..5 {
        let booking_ref = format!("BR-{round}");
        let bodies = [&one, &other].map(|opened| action("booking-confirm", booking(opened, &booking_ref)));
        let replies = futures_util::join!(send_action(&world, &bodies[0]), send_action(&world, &bodies[1]));
        let replies = [replies.0, replies.1];
        let ok = replies.iter().filter(|reply| reply["ok"] == true).count();
        let conflict = replies.iter().filter(|reply| reply["code"] == "booking_ref_conflict").count();
        assert_eq!((ok, conflict), (1, 1), "{replies:?}");
    }
    let confirmed = take_emitted(&world).await;
    assert_eq!(event_types(&confirmed).iter().filter(|one| **one == "booking.confirmed").count(), 5);
    assert_eq!(world.database.count("SELECT count(*) FROM invoices").await, 5);
}
