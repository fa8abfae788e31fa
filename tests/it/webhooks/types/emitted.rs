//! The outbound events of each path, and what emits none.

use super::{ExpectedEvent, Subscriber, ana, stage_change};
use chrono::{DateTime, Utc};
use common::clock;
use serde_json::{Value, json};
use tests::{RECORDS, event, text};

fn assigned<'a>(origin: &'a str, owner: &Value, previous: &Value) -> ExpectedEvent<'a> {
    ("lead.assigned", origin, json!({"owner": owner, "previousOwner": previous}))
}

impl Subscriber {
    /// The owner of a lead, and the other member.
    async fn members(&self, opened: &Value) -> (Value, Value) {
        let asha = json!({"email": "asha@acme.test", "name": "Asha"});
        let ben = json!({"email": "ben@acme.test", "name": "Ben"});
        let owner = self.outbound.world.lead(&opened["leadId"]).await["owner"].clone();
        if owner == asha { (asha, ben) } else { (ben, asha) }
    }

    /// Checks that only the assignment of a new lead was emitted: its first stage is not a change.
    async fn assert_routed(&self, opened: &Value) {
        let (owner, _) = self.members(opened).await;
        self.assert_emitted(opened, &[assigned("crm", &owner, &Value::Null)]).await;
    }

    /// The proposal of a lead, as the API shows it.
    async fn proposal(&self, opened: &Value) -> Value {
        let world = &self.outbound.world;
        let target = format!("{RECORDS}/leads/{}/trip", text(&opened["leadId"]));
        world.http().send(&world.key.records("GET", &target, "")).await.json()["data"]["proposal"].clone()
    }
}

#[tokio::test]
async fn opening_a_lead_emits_lead_assigned_however_it_was_opened() {
    let subscriber = Subscriber::start().await;
    let world = &subscriber.outbound.world;
    let payload = json!({"externalLeadId": "x-1", "message": "Hello", "budget": "a fair price"});
    let by_event = world.accept(ana("enquiry.submitted").payload(payload)).await;
    subscriber.assert_routed(&by_event).await;

    let discovery = || event("traveller.discovery_upserted").phone("1").payload(json!({"discovery": {"pax": 2}}));
    let by_discovery = world.accept(discovery()).await;
    subscriber.assert_routed(&by_discovery).await;
    let again = world.accept(discovery()).await;
    assert_eq!(again["leadId"], by_discovery["leadId"]);
    subscriber.assert_emitted(&again, &[]).await;

    let body = json!({"contact": {"email": "bo@example.com"}, "externalId": "r-1", "message": "Hello"});
    let lead = subscriber.write("POST", "/leads", &body).await;
    subscriber.assert_routed(&json!({"leadId": lead["id"]})).await;

    let by_advisor = subscriber.act(&["open-lead", "--email", "cy@example.com", "--name", "Cy"]).await;
    subscriber.assert_routed(&by_advisor).await;
    let without_trip = subscriber.act(&["open-lead", "--email", "cy@example.com", "--no-trip"]).await;
    assert_eq!(without_trip.get("tripId"), None);
    subscriber.assert_routed(&without_trip).await;
}

#[tokio::test]
async fn a_reassignment_emits_the_new_and_the_previous_owner() {
    let subscriber = Subscriber::start().await;
    let opened = subscriber.open_lead().await;
    let (owner, other) = subscriber.members(&opened).await;
    subscriber.patch(&opened, &json!({"owner": other["email"]})).await;
    subscriber.assert_emitted(&opened, &[assigned("connect-api", &other, &owner)]).await;
    subscriber.patch(&opened, &json!({"owner": other["email"]})).await;
    subscriber.assert_emitted(&opened, &[]).await;
    subscriber.act(&["assign", "--lead", text(&opened["leadId"]), "--owner", text(&owner["email"])]).await;
    subscriber.assert_emitted(&opened, &[assigned("crm", &owner, &other)]).await;
}

#[tokio::test]
async fn a_stage_change_emits_old_and_new_stage_and_reason() {
    let subscriber = Subscriber::start().await;
    let world = &subscriber.outbound.world;
    let opened = subscriber.open_lead().await;
    let lead = text(&opened["leadId"]);

    for _ in 0..2 {
        world.accept(ana("booking.started")).await;
    }
    subscriber.assert_emitted(&opened, &[stage_change("website", "inquiry", "proposal_approved", None)]).await;
    for _ in 0..2 {
        world.accept(ana("booking.completed")).await;
    }
    subscriber.assert_emitted(&opened, &[stage_change("website", "proposal_approved", "trip_booked", None)]).await;

    let mut at = "trip_booked";
    for stage in ["inquiry", "follow_up", "building_proposal", "negotiation"] {
        subscriber.patch(&opened, &json!({"stage": stage})).await;
        subscriber.assert_emitted(&opened, &[stage_change("connect-api", at, stage, None)]).await;
        at = stage;
    }
    subscriber.patch(&opened, &json!({"stage": "lost", "reason": "too dear"})).await;
    subscriber.assert_emitted(&opened, &[stage_change("connect-api", "negotiation", "lost", Some("too dear"))]).await;

    subscriber.act(&["stage", "--lead", lead, "--stage", "follow_up", "--reason", "they are back"]).await;
    subscriber.assert_emitted(&opened, &[stage_change("crm", "lost", "follow_up", Some("they are back"))]).await;
    subscriber.act(&["travelled", "--lead", lead]).await;
    subscriber.assert_emitted(&opened, &[stage_change("crm", "follow_up", "travelled", None)]).await;
    for _ in 0..2 {
        subscriber.act(&["archive", "--lead", lead]).await;
    }
    subscriber.assert_emitted(&opened, &[stage_change("crm", "travelled", "archived", None)]).await;
}

#[tokio::test]
async fn a_proposal_emits_sent_and_first_viewed() {
    let subscriber = Subscriber::start().await;
    let opened = subscriber.open_lead().await;
    let lead = text(&opened["leadId"]);
    let url = "https://proposals.example/p/1?for=ana";
    let send = ["proposal-send", "--lead", lead, "--title", "Goa in May", "--url", url, "--channel", "whatsapp"];
    let sent = subscriber.act(&send).await;
    let shown = subscriber.proposal(&opened).await;
    let facts = json!({
        "proposalId": sent["proposalId"], "tripId": opened["tripId"], "title": "Goa in May", "proposalUrl": url,
        "channel": "whatsapp", "sentAt": shown["sentAt"],
    });
    assert!(shown["sentAt"].is_string() && sent["proposalId"].is_string(), "{shown} {sent}");
    subscriber.assert_emitted(&opened, &[("proposal.sent", "crm", facts.clone())]).await;

    for _ in 0..2 {
        subscriber.act(&["proposal-view", "--lead", lead]).await;
    }
    let rows = subscriber.outbound.world.database.rows("SELECT viewed_at FROM proposals", &[]).await;
    let viewed_at: DateTime<Utc> = text(&rows[0]["viewed_at"]).parse().expect("a time");
    let mut viewed = facts;
    viewed["viewedAt"] = json!(clock::to_text(viewed_at));
    subscriber.assert_emitted(&opened, &[("proposal.viewed", "crm", viewed)]).await;
}

#[tokio::test]
async fn a_booking_emits_confirmed_and_cancelled_however_it_was_made() {
    let subscriber = Subscriber::start().await;
    let world = &subscriber.outbound.world;
    let opened = subscriber.open_lead().await;
    let lead = text(&opened["leadId"]);
    let payload = json!({"bookingRef": "BR-1", "amount": 1234.5, "currency": "INR", "creditUsed": 99});
    world.accept(ana("booking.completed").payload(payload)).await;
    let confirmed = json!({"bookingRef": "BR-1", "amount": 1234.5, "currency": "INR", "creditUsed": 99});
    let booked = stage_change("website", "inquiry", "trip_booked", None);
    subscriber.assert_emitted(&opened, &[booked, ("booking.confirmed", "website", confirmed)]).await;

    world.accept(ana("booking.completed").payload(json!({"bookingRef": "BR-2"}))).await;
    let confirmed = json!({"bookingRef": "BR-2", "amount": null, "currency": null});
    subscriber.assert_emitted(&opened, &[("booking.confirmed", "website", confirmed)]).await;

    subscriber.patch(&opened, &json!({"stage": "follow_up"})).await;
    subscriber.outbound.take_received().await;
    let confirm = ["booking-confirm", "--lead", lead, "--booking-ref", "BR-3", "--amount", "125000.50"];
    let credit = ["--currency", "INR", "--credit-used", "5000"];
    for _ in 0..2 {
        subscriber.act(&[&confirm[..], &credit].concat()).await;
    }
    let confirmed = json!({"bookingRef": "BR-3", "amount": 125_000.5, "currency": "INR", "creditUsed": 5_000});
    let booked = stage_change("crm", "follow_up", "trip_booked", None);
    subscriber.assert_emitted(&opened, &[booked, ("booking.confirmed", "crm", confirmed)]).await;

    // The stage of the lead stays.
    for (reference, reason) in [("BR-1", Some("illness")), ("BR-3", None)] {
        let cancel = ["booking-cancel", "--booking-ref", reference];
        let why = reason.map_or(vec![], |reason| vec!["--reason", reason]);
        for _ in 0..2 {
            subscriber.act(&[&cancel[..], &why].concat()).await;
        }
        let cancelled = json!({"bookingRef": reference, "reason": reason});
        subscriber.assert_emitted(&opened, &[("booking.cancelled", "crm", cancelled)]).await;
    }
    assert_eq!(world.lead(&opened["leadId"]).await["stage"], "trip_booked");
}

#[tokio::test]
async fn events_that_change_no_lead_emit_nothing() {
    let subscriber = Subscriber::start().await;
    let world = &subscriber.outbound.world;
    let opened = subscriber.open_lead().await;
    for kind in [
        "contact.identified", "contact.updated", "traveller.discovery_upserted", "trip.planning_started",
        "trip.draft_updated", "quote.requested", "booking.abandoned", "employee.credit_updated",
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
    let applied = json!({"tripId": opened["tripId"], "bookingRef": "BR-1", "requestedRupees": 5, "appliedRupees": 3});
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
