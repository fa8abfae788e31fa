//! Outbound events: what each path that emits one writes to the outbox (specification: Outbound webhook events; D12, D16,
//! D24, D25).

use super::{done, emitted, opened, patch, subscribe, trip, types};
use serde_json::{Value, json};
use tests::{Event, RECORDS, World, event, text};

/// What an outbound event is due to: the key's prefix, and the origin.
type Cause<'a> = (Option<&'a str>, &'a str);

/// The CRM's own acts.
const CRM: Cause<'static> = (None, "crm");

fn ana(event_type: &str) -> Event {
    event(event_type).email("ana@example.com")
}

/// A world with a subscriber and an enquiry of Ana's, from which on what is emitted counts.
async fn world() -> (World, Value) {
    let world = World::start().await;
    subscribe(&world).await;
    let payload = json!({"externalLeadId": "x-1"});
    let of = world.accept(ana("enquiry.submitted").name("Ana").payload(payload)).await;
    emitted(&world).await;
    (world, of)
}

/// Checks a row of the outbox: envelope, cause, and the ids that all payloads carry; gives the other facts.
async fn facts(world: &World, row: &Value, event_type: &str, of: &Value, (key, origin): Cause<'_>) -> Value {
    let envelope = &row["envelope"];
    assert_eq!((&row["event_type"], &envelope["eventType"]), (&json!(event_type), &json!(event_type)));
    assert_eq!((&row["key_prefix"], &row["origin"]), (&json!(key), &json!(origin)), "{event_type}");
    assert_eq!((&envelope["origin"], &envelope["specVersion"]), (&json!(origin), &json!("1.0")));
    assert_eq!(envelope["tenant"], "acme");
    let actor = json!({"type": "contact", "email": "ana@example.com", "name": "Ana"});
    assert_eq!(envelope["actor"], actor, "{event_type}");
    let lead = world.lead(&of["leadId"]).await;
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

/// The only event that was emitted: its facts.
async fn only(world: &World, event_type: &str, of: &Value, cause: Cause<'_>) -> Value {
    let rows = emitted(world).await;
    assert_eq!(types(&rows), [event_type]);
    facts(world, &rows[0], event_type, of, cause).await
}

/// The other member than the one who owns the enquiry, and that one.
async fn members(world: &World, of: &Value) -> (Value, Value) {
    let owner = world.lead(&of["leadId"]).await["owner"].clone();
    let (asha, ben) = (
        json!({"email": "asha@acme.test", "name": "Asha"}),
        json!({"email": "ben@acme.test", "name": "Ben"}),
    );
    if owner == asha { (ben, owner) } else { (asha, owner) }
}

#[tokio::test]
async fn lead_assigned_by_every_path() {
    let (world, of) = world().await;
    // Routing is the CRM's own act, whoever opened the enquiry.
    let by_event = world.accept(ana("enquiry.submitted")).await;
    let rows = emitted(&world).await;
    let routed = facts(&world, &rows[0], "lead.assigned", &by_event, CRM).await;
    assert_eq!(routed["previousOwner"], json!(null));
    assert_eq!(routed["owner"], world.lead(&by_event["leadId"]).await["owner"]);
    let body = json!({"contact": {"email": "ana@example.com"}}).to_string();
    let request = world.key.records("POST", &format!("{RECORDS}/leads"), body).with("idempotency-key", "k");
    let by_record = world.http().send(&request).await.json()["data"].clone();
    only(&world, "lead.assigned", &json!({"leadId": by_record["id"]}), CRM).await;
    let by_advisor = opened(&world).await;
    only(&world, "lead.assigned", &by_advisor, CRM).await;

    let (other, owner) = members(&world, &of).await;
    let route = format!("/leads/{}", text(&of["leadId"]));
    assert_eq!(patch(&world, &route, &json!({"owner": other["email"]})).await.status, 200);
    let key = Some(world.key.prefix.as_str());
    let assigned = only(&world, "lead.assigned", &of, (key, "connect-api")).await;
    assert_eq!(assigned, json!({"owner": other, "previousOwner": owner}));
    done(&world, "assign", json!({"lead": of["leadId"], "owner": owner["email"]})).await;
    let assigned = only(&world, "lead.assigned", &of, CRM).await;
    assert_eq!(assigned, json!({"owner": owner, "previousOwner": other}));
}

#[tokio::test]
async fn lead_assigned_by_a_discovery_that_opens_an_enquiry() {
    let world = World::start().await;
    subscribe(&world).await;
    let result = world.accept(ana("traveller.discovery_upserted").name("Ana")).await;
    only(&world, "lead.assigned", &result, CRM).await;
}

#[tokio::test]
async fn lead_stage_changed_by_every_path() {
    let (world, of) = world().await;
    let key = Some(world.key.prefix.as_str());
    let step = |from: &str, to: &str, reason: Value| json!({"from": from, "to": to, "reason": reason});
    let null = Value::Null;

    world.accept(ana("booking.started").with("origin", json!("shop"))).await;
    let changed = only(&world, "lead.stage_changed", &of, (key, "shop")).await;
    assert_eq!(changed, step("inquiry", "proposal_approved", null.clone()));
    world.accept(ana("booking.completed").with("origin", json!("shop"))).await;
    let changed = only(&world, "lead.stage_changed", &of, (key, "shop")).await;
    assert_eq!(changed, step("proposal_approved", "trip_booked", null.clone()));
    let route = format!("/leads/{}", text(&of["leadId"]));
    assert_eq!(patch(&world, &route, &json!({"stage": "lost", "reason": "too dear"})).await.status, 200);
    let changed = only(&world, "lead.stage_changed", &of, (key, "connect-api")).await;
    assert_eq!(changed, step("trip_booked", "lost", json!("too dear")));
    let lead = &of["leadId"];
    for (name, fields, expected) in [
        (
            "stage",
            json!({"lead": lead, "stage": "negotiation", "reason": "is back"}),
            step("lost", "negotiation", json!("is back")),
        ),
        ("travelled", json!({"lead": lead}), step("negotiation", "travelled", null.clone())),
        ("archive", json!({"lead": lead}), step("travelled", "archived", null.clone())),
    ] {
        done(&world, name, fields).await;
        assert_eq!(only(&world, "lead.stage_changed", &of, CRM).await, expected);
    }
    done(&world, "booking-confirm", json!({"lead": lead, "bookingRef": "BR-1"})).await;
    let rows = emitted(&world).await;
    assert_eq!(types(&rows), ["lead.stage_changed", "booking.confirmed"]);
    let changed = facts(&world, &rows[0], "lead.stage_changed", &of, CRM).await;
    assert_eq!(changed, step("archived", "trip_booked", null));
}

#[tokio::test]
async fn proposal_sent_and_viewed() {
    let (world, of) = world().await;
    let url = "https://proposals.example/p/1";
    let offer = json!({"lead": of["leadId"], "title": "Goa", "url": url, "channel": "whatsapp"});
    let answer = done(&world, "proposal-send", offer).await;
    let sent = only(&world, "proposal.sent", &of, CRM).await;
    let shown = trip(&world, &of).await;
    let mut expected = json!({
        "proposalId": answer["proposalId"], "title": "Goa", "proposalUrl": url, "channel": "whatsapp",
        "sentAt": shown["proposal"]["sentAt"],
    });
    assert_eq!(sent, expected);
    done(&world, "proposal-view", json!({"lead": of["leadId"]})).await;
    let viewed = only(&world, "proposal.viewed", &of, CRM).await;
    expected["viewedAt"] = trip(&world, &of).await["updatedAt"].clone();
    assert_eq!(viewed, expected);
    for name in ["proposal-view", "proposal-discard"] {
        done(&world, name, json!({"lead": of["leadId"]})).await;
        assert!(emitted(&world).await.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn booking_confirmed_by_every_path() {
    let (world, of) = world().await;
    let key = Some(world.key.prefix.as_str());
    let payload = json!({"bookingRef": "BR-1", "amount": 1200, "currency": "INR", "creditUsed": 50});
    world.accept(ana("booking.completed").payload(payload.clone()).with("origin", json!("shop"))).await;
    let rows = emitted(&world).await;
    assert_eq!(types(&rows), ["lead.stage_changed", "booking.confirmed"]);
    assert_eq!(facts(&world, &rows[1], "booking.confirmed", &of, (key, "shop")).await, payload);
    let mut by_advisor = json!({"bookingRef": "BR-2", "amount": 99.95, "currency": "EUR"});
    let expected = by_advisor.clone();
    by_advisor["lead"] = of["leadId"].clone();
    done(&world, "booking-confirm", by_advisor).await;
    assert_eq!(only(&world, "booking.confirmed", &of, CRM).await, expected);
}

#[tokio::test]
async fn booking_cancelled_whoever_made_the_booking() {
    let (world, of) = world().await;
    world.accept(ana("booking.completed").payload(json!({"bookingRef": "BR-1"}))).await;
    done(&world, "booking-confirm", json!({"lead": of["leadId"], "bookingRef": "BR-2"})).await;
    emitted(&world).await;
    for (booking_ref, reason) in [("BR-1", json!("illness")), ("BR-2", Value::Null)] {
        let mut fields = json!({"bookingRef": booking_ref});
        if !reason.is_null() {
            fields["reason"] = reason.clone();
        }
        done(&world, "booking-cancel", fields).await;
        let cancelled = only(&world, "booking.cancelled", &of, CRM).await;
        assert_eq!(cancelled, json!({"bookingRef": booking_ref, "reason": reason}));
    }
}
