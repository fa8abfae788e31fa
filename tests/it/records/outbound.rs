//! Outbound events of records writes: the rows of the outbox (specification: Outbound webhook events; D16, D24, D25).

use super::{lead_route, new_lead, patch, patch_request, post_request, record, trip_route};
use serde_json::{Value, json};
use tests::{ALL_SCOPES, ApiKey, UNREACHED_RECEIVER, World, text};

/// A world with a subscription: outbound events are written only for tenants with one.
async fn subscribed() -> World {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    world
}

/// The rows of the outbox, oldest first.
async fn outbox(world: &World) -> Vec<Value> {
    let query = "SELECT event_type, key_prefix, origin, envelope FROM outbox ORDER BY event_id";
    world.database.rows(query, &[]).await
}

/// The only event written since `seen` were.
async fn only_new(world: &World, seen: usize) -> Value {
    let all = outbox(world).await;
    let [event] = &all[seen..] else { panic!("{seen} before: {all:?}") };
    let envelope = &event["envelope"];
    for (column, field) in [("event_type", "eventType"), ("origin", "origin")] {
        assert_eq!(event[column], envelope[field], "{event}");
    }
    assert_eq!((&envelope["specVersion"], &envelope["tenant"]), (&json!("1.0"), &json!(world.key.tenant)));
    event.clone()
}

/// Type, key and origin of an event.
fn cause(event: &Value) -> [&Value; 3] {
    ["event_type", "key_prefix", "origin"].map(|column| &event[column])
}

/// A key that is registered with an origin.
async fn key_with_origin(world: &World, origin: &str) -> ApiKey {
    let create = ["key", "create", "--tenant", "acme", "--name", "app", "--scopes", ALL_SCOPES];
    let printed = world.connectctl.json(&[&create[..], &["--origin", origin]].concat()).await;
    ApiKey::of("acme", &printed)
}

#[tokio::test]
async fn opening_a_lead_emits_lead_assigned_with_origin_crm() {
    let world = subscribed().await;
    let lead = new_lead(&world, json!({"externalId": "x-1"})).await;
    let event = only_new(&world, 0).await;
    assert_eq!(cause(&event), [&json!("lead.assigned"), &Value::Null, &json!("crm")]);
    let expected = json!({
        "leadId": lead["id"], "tripId": lead["tripId"], "clientId": lead["clientId"],
        "enquiryNumber": lead["enquiryNumber"], "externalId": "x-1", "owner": lead["owner"], "previousOwner": null,
    });
    assert_eq!(event["envelope"]["payload"], expected);
    let ana = json!({"type": "contact", "name": "Ana", "email": "ana@example.com"});
    assert_eq!(event["envelope"]["actor"], ana);
}

#[tokio::test]
async fn a_stage_change_is_emitted_with_the_callers_key_and_origin() {
    let world = subscribed().await;
    let lead = new_lead(&world, json!({})).await;
    let app = key_with_origin(&world, "acme-app").await;
    for (seen, key, origin, stage) in
        [(1, &world.key, "connect-api", "follow_up"), (2, &app, "acme-app", "negotiation")]
    {
        let request = patch_request(key, &lead_route(&lead), &json!({"stage": stage}));
        record(&world.http().send(&request).await, 200);
        let event = only_new(&world, seen).await;
        assert_eq!(cause(&event), [&json!("lead.stage_changed"), &json!(key.prefix), &json!(origin)]);
        let payload = &event["envelope"]["payload"];
        assert_eq!((&payload["to"], &payload["reason"]), (&json!(stage), &Value::Null));
        assert_eq!(payload["leadId"], lead["id"]);
    }
    record(&patch(&world, &lead_route(&lead), json!({"stage": "lost", "reason": "too dear"})).await, 200);
    let payload = only_new(&world, 3).await["envelope"]["payload"].clone();
    let told = ["from", "to", "reason"].map(|fact| text(&payload[fact]).to_owned());
    assert_eq!(told, ["negotiation", "lost", "too dear"]);
}

#[tokio::test]
async fn an_owner_change_is_emitted_with_the_callers_key_and_origin() {
    let world = subscribed().await;
    let lead = new_lead(&world, json!({})).await;
    let app = key_with_origin(&world, "acme-app").await;
    for (seen, key, origin, owner, previous) in [
        (1, &world.key, "connect-api", "ben@acme.test", "asha@acme.test"),
        (2, &app, "acme-app", "asha@acme.test", "ben@acme.test"),
    ] {
        let request = patch_request(key, &lead_route(&lead), &json!({"owner": owner}));
        record(&world.http().send(&request).await, 200);
        let event = only_new(&world, seen).await;
        assert_eq!(cause(&event), [&json!("lead.assigned"), &json!(key.prefix), &json!(origin)]);
        let payload = &event["envelope"]["payload"];
        assert_eq!(
            (&payload["owner"]["email"], &payload["previousOwner"]["email"]),
            (&json!(owner), &json!(previous))
        );
    }
}

#[tokio::test]
async fn changing_stage_and_owner_together_emits_two_events() {
    let world = subscribed().await;
    let lead = new_lead(&world, json!({})).await;
    let both = json!({"stage": "follow_up", "owner": "ben@acme.test", "title": "New", "followUp": true});
    record(&patch(&world, &lead_route(&lead), both).await, 200);
    let types: Vec<_> =
        outbox(&world).await.iter().map(|event| text(&event["event_type"]).to_owned()).collect();
    assert_eq!(types, ["lead.assigned", "lead.stage_changed", "lead.assigned"]);
}

#[tokio::test]
async fn emits_nothing_for_unchanged_refused_or_repeated_writes() {
    let world = subscribed().await;
    let body = json!({"contact": {"email": "ana@example.com"}});
    let opened = post_request(&world.key, "/leads", "k-1", &body);
    let lead = record(&world.http().send(&opened).await, 201);
    assert_eq!(world.http().send(&opened).await.header("idempotent-replayed"), "true");
    let refused = patch_request(&world.key, &lead_route(&lead), &json!({"stage": "follow_up"}))
        .with("if-match", "\"x\"");
    assert_eq!(world.http().send(&refused).await.status, 412);
    for same in [json!({"stage": "inquiry"}), json!({"owner": "asha@acme.test"}), json!({"title": "New"})] {
        record(&patch(&world, &lead_route(&lead), same).await, 200);
    }
    record(&patch(&world, &trip_route(&lead), json!({"destination": "Goa", "message": "Hello"})).await, 200);
    only_new(&world, 0).await;
}

#[tokio::test]
async fn emits_nothing_without_a_subscription() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    record(&patch(&world, &lead_route(&lead), json!({"stage": "follow_up"})).await, 200);
    assert!(outbox(&world).await.is_empty());
}
