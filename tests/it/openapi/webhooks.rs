//! The webhooks that are sent are those that are described.

use super::{OPENAPI, get};
use crate::advisor::act;
use common::settings::{Environment, Section};
use dispatcher::settings::Settings;
use serde_json::{Value, json};
use tests::api_description::{closed, resolved, validator};
use tests::{Receiver, UNREACHED_RECEIVER, World, event, text};

/// Causes one event of each outbound type with all optional fields.
async fn cause_full_events(world: &World) {
    let person = event("enquiry.submitted").email("ana@example.com").phone("+49 30 1").external_id("crm-1");
    let result = world.accept(person.payload(json!({"externalLeadId": "order-1"}))).await;
    let lead = &result["leadId"];
    act(world, "assign", json!({"lead": lead, "owner": "ben@acme.test"})).await;
    act(world, "stage", json!({"lead": lead, "stage": "negotiation", "reason": "they called"})).await;
    let proposal = json!({"lead": lead, "title": "Goa", "url": "https://example.com/p", "channel": "email"});
    act(world, "proposal-send", proposal).await;
    act(world, "proposal-view", json!({"lead": lead})).await;
    let booking = json!({"lead": lead, "bookingRef": "B-1", "amount": 10, "currency": "INR", "creditUsed": 2.5});
    act(world, "booking-confirm", booking).await;
    act(world, "booking-cancel", json!({"bookingRef": "B-1", "reason": "ill"})).await;
}

/// Causes outbound events with as few fields as possible: no trip, no amount, no reason, an owner without a name.
async fn cause_minimal_events(world: &World) {
    let opened = act(world, "open-lead", json!({"email": "bo@example.com", "noTrip": true})).await;
    let lead = &opened["leadId"];
    let owner = world.lead(lead).await["owner"]["email"].clone();
    let other = if owner == "ben@acme.test" { "asha@acme.test" } else { "ben@acme.test" };
    world.database.execute(&format!("DELETE FROM members WHERE email = '{}'", text(&owner))).await;
    act(world, "assign", json!({"lead": lead, "owner": other})).await;
    act(world, "stage", json!({"lead": lead, "stage": "follow_up"})).await;
    let completed = event("booking.completed").email("bo@example.com");
    world.accept(completed.payload(json!({"leadId": lead, "bookingRef": "B-2"}))).await;
    act(world, "booking-cancel", json!({"bookingRef": "B-2"})).await;
}

#[tokio::test]
async fn every_webhook_fits_its_schema_with_all_and_with_few_fields() {
    let world = World::shared().await;
    let document = closed(get(&world, OPENAPI).await.json());
    world.subscribe(UNREACHED_RECEIVER).await;
    let receiver = Receiver::http();
    let tested = world.subscribe(&receiver.url("/hooks")).await;
    world.connectctl.json(&["subscription", "test", text(&tested["id"])]).await;
    cause_full_events(&world).await;
    cause_minimal_events(&world).await;
    let rows = world.database.rows("SELECT envelope FROM outbox ORDER BY created_at", &[]).await;
    let envelopes: Vec<&Value> = rows.iter().map(|row| &row["envelope"]).collect();

    for (kind, item) in document["webhooks"].as_object().expect("webhooks") {
        let schema = &item["post"]["requestBody"]["content"]["application/json"]["schema"];
        let validator = validator(&document, schema);
        let of_kind: Vec<_> = envelopes.iter().filter(|envelope| envelope["eventType"] == *kind).collect();
        assert!(!of_kind.is_empty(), "{kind}");
        for envelope in of_kind {
            let fits = validator.validate(envelope);
            assert!(fits.is_ok(), "{fits:?}: {envelope}");
        }
    }
    for (kind, absent) in [
        ("booking.confirmed", &["amount", "currency", "tripId", "creditUsed"][..]),
        ("booking.cancelled", &["reason"]),
        ("lead.stage_changed", &["reason"]),
        ("lead.assigned", &["previousOwner", "tripId"]),
    ] {
        for name in absent {
            let lacks = |envelope: &&Value| envelope["eventType"] == kind && envelope["payload"][name].is_null();
            assert!(envelopes.iter().any(lacks), "{kind} always has {name}");
        }
    }
    let former = envelopes.iter().map(|envelope| &envelope["payload"]["previousOwner"]);
    assert!(former.filter(|owner| owner.is_object()).any(|owner| owner["name"].is_null()), "{envelopes:?}");
}

#[tokio::test]
async fn a_delivery_has_exactly_the_documented_headers() {
    let world = World::shared().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    let delivery = receiver.wait_for(1).await.remove(0);

    let document = get(&world, OPENAPI).await.json();
    let operation = &document["webhooks"][delivery.header("x-connect-event")]["post"];
    let scheme = operation["security"][0].as_object().expect("security").keys().next().expect("a scheme");
    let signature = &document["components"]["securitySchemes"][scheme]["name"];
    let parameters = operation["parameters"].as_array().expect("parameters").iter();
    let parameters: Vec<_> = parameters.map(|parameter| resolved(&document, parameter)).collect();
    // A secret of another form has no signature of Standard Webhooks.
    let is_required =
        |parameter: &&Value| (parameter["required"] == true) != text(&parameter["name"]).starts_with("webhook-");
    assert_eq!(parameters.iter().find(|parameter| !is_required(parameter)), None);
    let described = parameters.iter().map(|parameter| &parameter["name"]).chain([signature]);
    let mut described: Vec<String> = described.map(|name| text(name).to_lowercase()).collect();
    described.sort_unstable();
    // Those of HTTP itself.
    let of_http = ["host", "accept", "content-type", "content-length", "user-agent"];
    let mut sent: Vec<String> = delivery.headers().map(|(name, _)| name.to_lowercase()).collect();
    sent.retain(|name| !of_http.contains(&name.as_str()));
    sent.sort_unstable();
    assert_eq!(sent, described);
    for parameter in parameters {
        let sent = json!(delivery.header(text(&parameter["name"])));
        assert!(validator(&document, &parameter["schema"]).is_valid(&sent), "{parameter}: {sent}");
    }
}

#[test]
fn the_documented_schedule_matches_the_dispatchers_defaults() {
    let document: Value = serde_json::from_str(ingest::docs::OPENAPI).expect("JSON");
    let nothing_set = Environment::from_pairs(&[]);
    let Settings { schedule, sender, .. } = Settings::from_env(&nothing_set).expect("defaults");
    let wait = |made: u16| (schedule.base.as_secs() << made).min(schedule.cap.as_secs()).to_string();
    let waits: Vec<String> = (0..schedule.attempts - 1).map(wait).collect();
    for said in [
        format!("within {} seconds", sender.timeout.as_secs()),
        format!("There are {} attempts, with waits of {} seconds", schedule.attempts, waits.join(", ")),
        format!("up to {} minutes", schedule.cap.as_secs() / 60),
    ] {
        let description = text(&document["info"]["description"]).replace('\n', " ");
        assert!(description.contains(&said), "{said}");
    }
}
