//! Outbound events: what each path that emits one writes to the outbox (specification: Outbound webhook events; D12, D16,
//! D24, D25).

use super::{act, event_types, open_lead, patch, take_emitted, trip};
use serde_json::{Value, json};
use tests::{Event, RECORDS, UNREACHED_RECEIVER, World, event, text};

/// What caused an outbound event: the prefix of the key, and the origin.
type Cause<'a> = (Option<&'a str>, &'a str);

/// The CRM itself.
const CRM: Cause<'static> = (None, "crm");

fn ana(event_type: &str) -> Event {
    event(event_type).email("ana@example.com")
}

/// A world with a subscriber and a lead of Ana. Events emitted so far are removed.
async fn world() -> (World, Value) {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let payload = json!({"externalLeadId": "x-1"});
    let opened = world.accept(ana("enquiry.submitted").name("Ana").payload(payload)).await;
    take_emitted(&world).await;
    (world, opened)
}

/// Checks the envelope, the cause and the common ids of an outbox row; returns the rest of its payload.
async fn specific_fields(
    world: &World,
    row: &Value,
    event_type: &str,
    opened: &Value,
    (key, origin): Cause<'_>,
) -> Value {
    let envelope = &row["envelope"];
    assert_eq!((&row["event_type"], &envelope["eventType"]), (&json!(event_type), &json!(event_type)));
    assert_eq!((&row["key_prefix"], &row["origin"]), (&json!(key), &json!(origin)), "{event_type}");
    assert_eq!((&envelope["origin"], &envelope["specVersion"]), (&json!(origin), &json!("1.0")));
    assert_eq!(envelope["tenant"], tests::slug("acme"));
    let actor = json!({"type": "contact", "email": "ana@example.com", "name": "Ana"});
    assert_eq!(envelope["actor"], actor, "{event_type}");
    let lead = world.lead(&opened["leadId"]).await;
    let mut payload = envelope["payload"].as_object().expect("a payload").clone();
    for (field, expected) in [
        ("leadId", &lead["id"]),
        ("clientId", &lead["clientId"]),
        ("enquiryNumber", &lead["enquiryNumber"]),
        ("tripId", lead.get("tripId").unwrap_or(&Value::Null)),
        ("externalId", lead.get("externalId").unwrap_or(&Value::Null)),
    ] {
        assert_eq!(payload.remove(field).unwrap_or_default(), *expected, "{event_type} {field}");
    }
    Value::Object(payload)
}

/// Takes the emitted events, checks that there is exactly one, of this type, and returns the fields of its payload that only
/// this type has.
async fn take_only_event(world: &World, event_type: &str, opened: &Value, cause: Cause<'_>) -> Value {
    let rows = take_emitted(world).await;
    assert_eq!(event_types(&rows), [event_type]);
    specific_fields(world, &rows[0], event_type, opened, cause).await
}

/// The member who does not own the lead, and its owner.
async fn members(world: &World, opened: &Value) -> (Value, Value) {
    let owner = world.lead(&opened["leadId"]).await["owner"].clone();
    let (asha, ben) = (
        json!({"email": "asha@acme.test", "name": "Asha"}),
        json!({"email": "ben@acme.test", "name": "Ben"}),
    );
    if owner == asha { (ben, owner) } else { (asha, owner) }
}

#[tokio::test]
async fn every_path_emits_lead_assigned() {
    let (world, opened) = world().await;
    // Routing is done by the CRM, whoever opened the lead.
    let by_event = world.accept(ana("enquiry.submitted")).await;
    let rows = take_emitted(&world).await;
    let routed = specific_fields(&world, &rows[0], "lead.assigned", &by_event, CRM).await;
    assert_eq!(routed["previousOwner"], json!(null));
    assert_eq!(routed["owner"], world.lead(&by_event["leadId"]).await["owner"]);
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    let request = world.key.records("POST", &format!("{RECORDS}/leads"), body).with("idempotency-key", "k");
    let by_record = world.http().send(&request).await.json()["data"].clone();
    take_only_event(&world, "lead.assigned", &json!({"leadId": by_record["id"]}), CRM).await;
    let by_advisor = open_lead(&world).await;
    take_only_event(&world, "lead.assigned", &by_advisor, CRM).await;

    let (other, owner) = members(&world, &opened).await;
    let route = format!("/leads/{}", text(&opened["leadId"]));
    assert_eq!(patch(&world, &route, &json!({"owner": other["email"]})).await.status, 200);
    let key = Some(world.key.prefix.as_str());
    let assigned = take_only_event(&world, "lead.assigned", &opened, (key, "connect-api")).await;
    assert_eq!(assigned, json!({"owner": other, "previousOwner": owner}));
    act(&world, "assign", json!({"lead": opened["leadId"], "owner": owner["email"]})).await;
    let assigned = take_only_event(&world, "lead.assigned", &opened, CRM).await;
    assert_eq!(assigned, json!({"owner": owner, "previousOwner": other}));
}

#[tokio::test]
async fn a_discovery_that_opens_a_lead_emits_lead_assigned() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let result = world.accept(ana("traveller.discovery_upserted").name("Ana")).await;
    take_only_event(&world, "lead.assigned", &result, CRM).await;
}

#[tokio::test]
async fn every_path_emits_lead_stage_changed() {
    let (world, opened) = world().await;
    let key = Some(world.key.prefix.as_str());
    let step = |from: &str, to: &str, reason: Value| json!({"from": from, "to": to, "reason": reason});
    let null = Value::Null;

    world.accept(ana("booking.started").with("origin", json!("shop"))).await;
    let changed = take_only_event(&world, "lead.stage_changed", &opened, (key, "shop")).await;
    assert_eq!(changed, step("inquiry", "proposal_approved", null.clone()));
    world.accept(ana("booking.completed").with("origin", json!("shop"))).await;
    let changed = take_only_event(&world, "lead.stage_changed", &opened, (key, "shop")).await;
    assert_eq!(changed, step("proposal_approved", "trip_booked", null.clone()));
    let route = format!("/leads/{}", text(&opened["leadId"]));
    assert_eq!(patch(&world, &route, &json!({"stage": "lost", "reason": "too dear"})).await.status, 200);
    let changed = take_only_event(&world, "lead.stage_changed", &opened, (key, "connect-api")).await;
    assert_eq!(changed, step("trip_booked", "lost", json!("too dear")));
    let lead = &opened["leadId"];
    for (name, fields, expected) in [
        (
            "stage",
            json!({"lead": lead, "stage": "negotiation", "reason": "is back"}),
            step("lost", "negotiation", json!("is back")),
        ),
        ("travelled", json!({"lead": lead}), step("negotiation", "travelled", null.clone())),
        ("archive", json!({"lead": lead}), step("travelled", "archived", null.clone())),
    ] {
        act(&world, name, fields).await;
        assert_eq!(take_only_event(&world, "lead.stage_changed", &opened, CRM).await, expected);
    }
    act(&world, "booking-confirm", json!({"lead": lead, "bookingRef": "BR-1"})).await;
    let rows = take_emitted(&world).await;
    assert_eq!(event_types(&rows), ["lead.stage_changed", "booking.confirmed"]);
    let changed = specific_fields(&world, &rows[0], "lead.stage_changed", &opened, CRM).await;
    assert_eq!(changed, step("archived", "trip_booked", null));
}

#[tokio::test]
async fn emits_proposal_sent_and_proposal_viewed() {
    let (world, opened) = world().await;
    let url = "https://proposals.example/p/1";
    let offer = json!({"lead": opened["leadId"], "title": "Goa", "url": url, "channel": "whatsapp"});
    let reply = act(&world, "proposal-send", offer).await;
    let sent = take_only_event(&world, "proposal.sent", &opened, CRM).await;
    let shown = trip(&world, &opened).await;
    let mut expected = json!({
        "proposalId": reply["proposalId"], "title": "Goa", "proposalUrl": url, "channel": "whatsapp",
        "sentAt": shown["proposal"]["sentAt"],
    });
    assert_eq!(sent, expected);
    act(&world, "proposal-view", json!({"lead": opened["leadId"]})).await;
    let viewed = take_only_event(&world, "proposal.viewed", &opened, CRM).await;
    expected["viewedAt"] = trip(&world, &opened).await["updatedAt"].clone();
    assert_eq!(viewed, expected);
    for name in ["proposal-view", "proposal-discard"] {
        act(&world, name, json!({"lead": opened["leadId"]})).await;
        assert!(take_emitted(&world).await.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn every_path_emits_booking_confirmed() {
    let (world, opened) = world().await;
    let key = Some(world.key.prefix.as_str());
    let payload = json!({"bookingRef": "BR-1", "amount": 1200, "currency": "INR", "creditUsed": 50});
    world.accept(ana("booking.completed").payload(payload.clone()).with("origin", json!("shop"))).await;
    let rows = take_emitted(&world).await;
    assert_eq!(event_types(&rows), ["lead.stage_changed", "booking.confirmed"]);
    assert_eq!(specific_fields(&world, &rows[1], "booking.confirmed", &opened, (key, "shop")).await, payload);
    let mut by_advisor = json!({"bookingRef": "BR-2", "amount": 99.95, "currency": "EUR"});
    let expected = by_advisor.clone();
    by_advisor["lead"] = opened["leadId"].clone();
    act(&world, "booking-confirm", by_advisor).await;
    assert_eq!(take_only_event(&world, "booking.confirmed", &opened, CRM).await, expected);
}

#[tokio::test]
async fn emits_booking_cancelled_however_the_booking_was_created() {
    let (world, opened) = world().await;
    world.accept(ana("booking.completed").payload(json!({"bookingRef": "BR-1"}))).await;
    act(&world, "booking-confirm", json!({"lead": opened["leadId"], "bookingRef": "BR-2"})).await;
    take_emitted(&world).await;
    for (booking_ref, reason) in [("BR-1", json!("illness")), ("BR-2", Value::Null)] {
        let mut fields = json!({"bookingRef": booking_ref});
        if !reason.is_null() {
            fields["reason"] = reason.clone();
        }
        act(&world, "booking-cancel", fields).await;
        let cancelled = take_only_event(&world, "booking.cancelled", &opened, CRM).await;
        assert_eq!(cancelled, json!({"bookingRef": booking_ref, "reason": reason}));
    }
}
