//! What each path tells of.

use super::{Listener, Told, ana, step};
use serde_json::{Value, json};
use tests::{RECORDS, event, text};

/// An assignment.
fn assigned<'a>(origin: &'a str, owner: &Value, previous: &Value) -> Told<'a> {
    ("lead.assigned", origin, json!({"owner": owner, "previousOwner": previous}))
}

impl Listener {
    /// Who owns an enquiry, and the other member.
    async fn members(&self, of: &Value) -> (Value, Value) {
        let asha = json!({"email": "asha@acme.test", "name": "Asha"});
        let ben = json!({"email": "ben@acme.test", "name": "Ben"});
        let owner = self.outbound.world.lead(&of["leadId"]).await["owner"].clone();
        if owner == asha { (asha, ben) } else { (ben, asha) }
    }

    /// Checks that the routing of a new enquiry was heard, and nothing else: its first stage is no change.
    async fn assert_routed(&self, of: &Value) {
        let (owner, _) = self.members(of).await;
        self.assert_told(of, &[assigned("crm", &owner, &Value::Null)]).await;
    }

    /// What the interface shows of an enquiry's proposal.
    async fn proposal(&self, of: &Value) -> Value {
        let world = &self.outbound.world;
        let target = format!("{RECORDS}/leads/{}/trip", text(&of["leadId"]));
        world.http().send(&world.key.records("GET", &target, "")).await.json()["data"]["proposal"].clone()
    }
}

#[tokio::test]
async fn a_new_enquiry_tells_of_its_advisor_however_it_was_opened() {
    let listener = Listener::start().await;
    let world = &listener.outbound.world;
    let payload = json!({"externalLeadId": "x-1", "message": "Hello", "budget": "a fair price"});
    let by_event = world.accept(ana("enquiry.submitted").payload(payload)).await;
    listener.assert_routed(&by_event).await;

    let discovery =
        || event("traveller.discovery_upserted").phone("1").payload(json!({"discovery": {"pax": 2}}));
    let by_discovery = world.accept(discovery()).await;
    listener.assert_routed(&by_discovery).await;
    let again = world.accept(discovery()).await;
    assert_eq!(again["leadId"], by_discovery["leadId"]);
    listener.assert_told(&again, &[]).await;

    let body = json!({"contact": {"email": "bo@example.com"}, "externalId": "r-1", "message": "Hello"});
    let lead = listener.write("POST", "/leads", &body).await;
    listener.assert_routed(&json!({"leadId": lead["id"]})).await;

    let by_advisor = listener.advise(&["open-lead", "--email", "cy@example.com", "--name", "Cy"]).await;
    listener.assert_routed(&by_advisor).await;
    let without_trip = listener.advise(&["open-lead", "--email", "cy@example.com", "--no-trip"]).await;
    assert_eq!(without_trip.get("tripId"), None);
    listener.assert_routed(&without_trip).await;
}

#[tokio::test]
async fn a_reassignment_tells_of_the_owner_and_of_the_one_before() {
    let listener = Listener::start().await;
    let of = listener.enquiry().await;
    let (owner, other) = listener.members(&of).await;
    listener.patch(&of, &json!({"owner": other["email"]})).await;
    listener.assert_told(&of, &[assigned("connect-api", &other, &owner)]).await;
    listener.patch(&of, &json!({"owner": other["email"]})).await;
    listener.assert_told(&of, &[]).await;
    listener.advise(&["assign", "--lead", text(&of["leadId"]), "--owner", text(&owner["email"])]).await;
    listener.assert_told(&of, &[assigned("crm", &owner, &other)]).await;
}

#[tokio::test]
async fn a_change_of_stage_tells_from_where_to_where_and_why() {
    let listener = Listener::start().await;
    let world = &listener.outbound.world;
    let of = listener.enquiry().await;
    let lead = text(&of["leadId"]);

    for _ in 0..2 {
        world.accept(ana("booking.started")).await;
    }
    listener.assert_told(&of, &[step("website", "inquiry", "proposal_approved", None)]).await;
    for _ in 0..2 {
        world.accept(ana("booking.completed")).await;
    }
    listener.assert_told(&of, &[step("website", "proposal_approved", "trip_booked", None)]).await;

    let mut at = "trip_booked";
    for stage in ["inquiry", "follow_up", "building_proposal", "negotiation"] {
        listener.patch(&of, &json!({"stage": stage})).await;
        listener.assert_told(&of, &[step("connect-api", at, stage, None)]).await;
        at = stage;
    }
    listener.patch(&of, &json!({"stage": "lost", "reason": "too dear"})).await;
    listener.assert_told(&of, &[step("connect-api", "negotiation", "lost", Some("too dear"))]).await;

    listener.advise(&["stage", "--lead", lead, "--stage", "follow_up", "--reason", "they are back"]).await;
    listener.assert_told(&of, &[step("crm", "lost", "follow_up", Some("they are back"))]).await;
    listener.advise(&["travelled", "--lead", lead]).await;
    listener.assert_told(&of, &[step("crm", "follow_up", "travelled", None)]).await;
    for _ in 0..2 {
        listener.advise(&["archive", "--lead", lead]).await;
    }
    listener.assert_told(&of, &[step("crm", "travelled", "archived", None)]).await;
}

#[tokio::test]
async fn a_proposal_tells_when_it_is_sent_and_when_it_is_viewed_first() {
    let listener = Listener::start().await;
    let of = listener.enquiry().await;
    let lead = text(&of["leadId"]);
    let url = "https://proposals.example/p/1?for=ana";
    let send =
        ["proposal-send", "--lead", lead, "--title", "Goa in May", "--url", url, "--channel", "whatsapp"];
    let sent = listener.advise(&send).await;
    let shown = listener.proposal(&of).await;
    let facts = json!({
        "proposalId": sent["proposalId"], "tripId": of["tripId"], "title": "Goa in May", "proposalUrl": url,
        "channel": "whatsapp", "sentAt": shown["sentAt"],
    });
    assert!(shown["sentAt"].is_string() && sent["proposalId"].is_string(), "{shown} {sent}");
    listener.assert_told(&of, &[("proposal.sent", "crm", facts.clone())]).await;

    for _ in 0..2 {
        listener.advise(&["proposal-view", "--lead", lead]).await;
    }
    let rows = listener.outbound.world.database.rows("SELECT viewed_at FROM proposals", &[]).await;
    let viewed_at = text(&rows[0]["viewed_at"]).replace("+00:00", "Z");
    let mut viewed = facts;
    viewed["viewedAt"] = json!(viewed_at);
    listener.assert_told(&of, &[("proposal.viewed", "crm", viewed)]).await;
}

#[tokio::test]
async fn a_booking_tells_when_it_is_confirmed_and_when_it_is_cancelled_however_it_was_made() {
    let listener = Listener::start().await;
    let world = &listener.outbound.world;
    let of = listener.enquiry().await;
    let lead = text(&of["leadId"]);
    let payload = json!({"bookingRef": "BR-1", "amount": 1234.5, "currency": "INR", "creditUsed": 99});
    world.accept(ana("booking.completed").payload(payload)).await;
    let confirmed = json!({"bookingRef": "BR-1", "amount": 1234.5, "currency": "INR", "creditUsed": 99});
    let booked = step("website", "inquiry", "trip_booked", None);
    listener.assert_told(&of, &[booked, ("booking.confirmed", "website", confirmed)]).await;

    world.accept(ana("booking.completed").payload(json!({"bookingRef": "BR-2"}))).await;
    let confirmed = json!({"bookingRef": "BR-2", "amount": null, "currency": null});
    listener.assert_told(&of, &[("booking.confirmed", "website", confirmed)]).await;

    listener.patch(&of, &json!({"stage": "follow_up"})).await;
    listener.outbound.came().await;
    let confirm = ["booking-confirm", "--lead", lead, "--booking-ref", "BR-3", "--amount", "125000.50"];
    let credit = ["--currency", "INR", "--credit-used", "5000"];
    for _ in 0..2 {
        listener.advise(&[&confirm[..], &credit].concat()).await;
    }
    let confirmed =
        json!({"bookingRef": "BR-3", "amount": 125_000.5, "currency": "INR", "creditUsed": 5_000});
    let booked = step("crm", "follow_up", "trip_booked", None);
    listener.assert_told(&of, &[booked, ("booking.confirmed", "crm", confirmed)]).await;

    // Its stage stays.
    for (reference, reason) in [("BR-1", Some("illness")), ("BR-3", None)] {
        let cancel = ["booking-cancel", "--booking-ref", reference];
        let why = reason.map_or(vec![], |reason| vec!["--reason", reason]);
        for _ in 0..2 {
            listener.advise(&[&cancel[..], &why].concat()).await;
        }
        let cancelled = json!({"bookingRef": reference, "reason": reason});
        listener.assert_told(&of, &[("booking.cancelled", "crm", cancelled)]).await;
    }
    assert_eq!(world.lead(&of["leadId"]).await["stage"], "trip_booked");
}
