//! Advisor actions (docs/operate.md: Advisor actions; D16, D20, D24, D25).

mod actions;
mod commands;
mod redelivery;
mod refusals;
mod turns;

use serde_json::{Value, json};
use tests::{HttpResponse, QueuedMessage, RECORDS, World, slug, text, until_equal};
use uuid::Uuid;

/// The body of an action for `acme`, or for the tenant in `fields`.
fn action(name: &str, fields: Value) -> Value {
    let mut body = json!({"action": name, "tenant": slug("acme")});
    let Value::Object(fields) = fields else { panic!("no object: {fields}") };
    for (field, value) in fields {
        body[field] = value;
    }
    body
}

/// Publishes an action with a new message id and returns the reply.
async fn send_action(world: &World, body: &Value) -> Value {
    send_action_as(world, &Uuid::now_v7().to_string(), body).await
}

/// Publishes an action with this message id and returns the reply.
async fn send_action_as(world: &World, id: &str, body: &Value) -> Value {
    send_message(world, &QueuedMessage::new(body.to_string().as_bytes()).with_id(id)).await
}

/// Publishes a message and returns the reply.
async fn send_message(world: &World, message: &QueuedMessage) -> Value {
    let reply = world.queues.call("crm", message).await;
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("no JSON ({error}): {reply:?}"))
}

/// Publishes an action, which must succeed, and returns the reply.
pub(crate) async fn act(world: &World, name: &str, fields: Value) -> Value {
    let body = action(name, fields);
    let reply = send_action(world, &body).await;
    assert_eq!(reply["ok"], true, "{body}: {reply}");
    reply
}

/// Publishes an action, which must fail with this status and code, and returns the error.
async fn act_refused(world: &World, body: &Value, status: u16, code: &str) -> Value {
    let reply = send_action(world, body).await;
    assert_eq!((&reply["statusCode"], &reply["code"]), (&json!(status), &json!(code)), "{body}: {reply}");
    assert!(reply["message"].as_str().is_some_and(|message| !message.is_empty()), "{reply}");
    assert_eq!(reply.get("ok"), None);
    reply
}

/// Opens a lead of Ana's and returns the reply.
async fn open_lead(world: &World) -> Value {
    act(world, "open-lead", json!({"email": "ana@example.com", "name": "Ana"})).await
}

/// Opens a lead without a trip.
async fn open_lead_without_trip(world: &World) -> Value {
    act(world, "open-lead", json!({"email": "ana@example.com", "noTrip": true})).await
}

async fn get(world: &World, route: &str) -> HttpResponse {
    world.http().send(&world.key.records("GET", &format!("{RECORDS}{route}"), "")).await
}

async fn patch(world: &World, route: &str, body: &Value) -> HttpResponse {
    world.http().send(&world.key.records("PATCH", &format!("{RECORDS}{route}"), body.to_string())).await
}

/// The lead that a reply names, as the API shows it.
async fn lead(world: &World, opened: &Value) -> Value {
    get(world, &format!("/leads/{}", text(&opened["leadId"]))).await.json()["data"].clone()
}

fn trip_route(opened: &Value) -> String {
    format!("/leads/{}/trip", text(&opened["leadId"]))
}

/// The trip of that lead, as the API shows it.
async fn trip(world: &World, opened: &Value) -> Value {
    get(world, &trip_route(opened)).await.json()["data"].clone()
}

/// Removes the rows of the outbox and returns them, oldest first.
async fn take_emitted(world: &World) -> Vec<Value> {
    let query = "SELECT event_type, key_prefix, origin, envelope FROM outbox ORDER BY event_id";
    let rows = world.database.rows(query, &[]).await;
    world.database.execute("DELETE FROM outbox").await;
    rows
}

fn event_types(emitted: &[Value]) -> Vec<&str> {
    emitted.iter().map(|row| text(&row["event_type"])).collect()
}

/// How many actions wait in the database.
const WAITING: &str = "SELECT count(*) FROM advisor_actions";

/// Waits until no action waits and the dead-letter queue has `dead` messages.
async fn until_settled(world: &World, dead: u32) {
    until_equal("messages wait and are dead", (0, 0, dead), async || {
        let ready = world.queues.depth("crm").await;
        (ready, world.database.count(WAITING).await, world.queues.depth("crm.dead").await)
    })
    .await;
}

/// How many actions with that status the first worker has counted.
async fn count_actions(world: &World, status: &str) -> f64 {
    world.workers[0].metrics().await.sum("connect_actions_total", &[("status", status)])
}

/// All rows of the tenants' tables, to check that nothing changed.
async fn stored_records(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for table in ["clients", "leads", "trips", "proposals", "invoices", "notifications", "event_ledger", "outbox"] {
        let query = format!("SELECT to_jsonb(t) AS t FROM {table} t ORDER BY 1");
        all.extend(world.database.rows(&query, &[]).await);
    }
    all
}
