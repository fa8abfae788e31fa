//! What nobody is told of, the reserved types among it.

use super::{Listener, ana};
use serde_json::json;
use tests::{Connectctl, TestDatabase, event, text};

#[tokio::test]
async fn events_that_open_and_move_nothing_tell_nobody() {
    let listener = Listener::start().await;
    let world = &listener.outbound.world;
    let of = listener.enquiry().await;
    for kind in [
        "contact.identified",
        "contact.updated",
        "traveller.discovery_upserted",
        "trip.planning_started",
        "trip.draft_updated",
        "quote.requested",
        "booking.abandoned",
        "employee.credit_updated",
    ] {
        let credit = json!({"membershipId": "m-1", "corporateName": "Example Ltd", "availablePaise": 5,
                            "grantedPaise": 9, "redeemablePercent": 50, "asOf": "2026-05-01T10:00:00Z"});
        let payload = if kind == "employee.credit_updated" { credit } else { json!({}) };
        world.accept(ana(kind).payload(payload)).await;
    }
    // One that there is no enquiry for, and one that fails.
    world.accept(event("booking.started").email("nobody@example.com")).await;
    let failed = world.result(event("contact.updated").email("stranger@example.com")).await;
    assert_eq!(failed["status"], "failed");
    listener.assert_told(&of, &[]).await;

    // A reply to a confirmation tells nobody either.
    let booking = json!({"bookingRef": "BR-1", "amount": 10, "currency": "INR", "creditUsed": 5});
    world.accept(ana("booking.completed").payload(booking)).await;
    assert_eq!(listener.outbound.came().await.len(), 2);
    let applied =
        json!({"tripId": of["tripId"], "bookingRef": "BR-1", "requestedRupees": 5, "appliedRupees": 3});
    world.accept(ana("booking.credit_applied").payload(applied)).await;
    listener.assert_told(&of, &[]).await;
}

#[tokio::test]
async fn records_that_open_and_move_nothing_tell_nobody() {
    let listener = Listener::start().await;
    let of = listener.enquiry().await;
    let lead = text(&of["leadId"]);
    let client = listener.write("POST", "/clients", &json!({"email": "bo@example.com"})).await;
    listener.write("PATCH", &format!("/clients/{}", text(&client["id"])), &json!({"name": "Bo"})).await;
    listener.patch(&of, &json!({"title": "Sun", "followUp": true, "stage": "inquiry"})).await;
    // Words and an itinerary of the customer's: what the reserved types would be for.
    let trip = json!({"destination": "Goa", "message": "Can we leave a day later?", "changeSummary": "a day later",
                      "itinerary": {"title": "Goa", "days": [{"title": "One", "items": [{"title": "Swim"}]}]}});
    let changed = listener.write("PATCH", &format!("/leads/{lead}/trip"), &trip).await;
    assert_eq!(changed["itineraryApplied"], true);
    listener.advise(&["proposal-discard", "--lead", lead]).await;
    listener.assert_told(&of, &[]).await;
}

#[tokio::test]
async fn reserved_types_cant_be_subscribed_to() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    for reserved in ["proposal.ready", "message.posted"] {
        let url = "https://1.1.1.1/hooks";
        let create = ["subscription", "create", "--tenant", "acme", "--url", url, "--events", reserved];
        let ran = connectctl.run(&create).await;
        assert_eq!(ran.code, Some(1), "{reserved}: {ran:?}");
    }
}
