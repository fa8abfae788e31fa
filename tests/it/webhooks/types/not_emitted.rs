//! What emits no outbound event.

use super::{Subscriber, ana};
use serde_json::json;
use tests::{event, text};

#[tokio::test]
async fn events_that_change_no_lead_emit_nothing() {
    let subscriber = Subscriber::start().await;
    let world = &subscriber.outbound.world;
    let opened = subscriber.open_lead().await;
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
    // An event without a lead, and one that fails.
    world.accept(event("booking.started").email("nobody@example.com")).await;
    let failed = world.result(event("contact.updated").email("stranger@example.com")).await;
    assert_eq!(failed["status"], "failed");
    subscriber.assert_emitted(&opened, &[]).await;

    // The credit event that follows a confirmation emits nothing either.
    let booking = json!({"bookingRef": "BR-1", "amount": 10, "currency": "INR", "creditUsed": 5});
    world.accept(ana("booking.completed").payload(booking)).await;
    assert_eq!(subscriber.outbound.take_received().await.len(), 2);
    let applied =
        json!({"tripId": opened["tripId"], "bookingRef": "BR-1", "requestedRupees": 5, "appliedRupees": 3});
    world.accept(ana("booking.credit_applied").payload(applied)).await;
    subscriber.assert_emitted(&opened, &[]).await;
}

#[tokio::test]
async fn records_writes_that_change_no_stage_or_owner_emit_nothing() {
    let subscriber = Subscriber::start().await;
    let opened = subscriber.open_lead().await;
    let lead = text(&opened["leadId"]);
    let client = subscriber.write("POST", "/clients", &json!({"email": "bo@example.com"})).await;
    subscriber.write("PATCH", &format!("/clients/{}", text(&client["id"])), &json!({"name": "Bo"})).await;
    subscriber.patch(&opened, &json!({"title": "Sun", "followUp": true, "stage": "inquiry"})).await;
    // A message and an itinerary of the customer: the reserved types would cover these.
    let trip = json!({"destination": "Goa", "message": "Can we leave a day later?", "changeSummary": "a day later",
                      "itinerary": {"title": "Goa", "days": [{"title": "One", "items": [{"title": "Swim"}]}]}});
    let changed = subscriber.write("PATCH", &format!("/leads/{lead}/trip"), &trip).await;
    assert_eq!(changed["itineraryApplied"], true);
    subscriber.act(&["proposal-discard", "--lead", lead]).await;
    subscriber.assert_emitted(&opened, &[]).await;
}
