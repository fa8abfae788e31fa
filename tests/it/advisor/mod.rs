//! Advisor actions (the operator's contract: Advisor actions; D16, D20, D24, D25).

mod actions;
mod bookings;
mod commands;
mod emits;
mod malformed;
mod proposals;
mod redelivery;
mod refusals;

use serde_json::{Value, json};
use tests::{Answer, PATIENCE, QueuedMessage, RECORDS, World, eventually, text};
use uuid::Uuid;

/// An action of `acme`'s, or of the agency that `fields` name.
fn action(name: &str, fields: Value) -> Value {
    let mut body = json!({"action": name, "tenant": "acme"});
    let Value::Object(fields) = fields else { panic!("no object: {fields}") };
    for (field, value) in fields {
        body[field] = value;
    }
    body
}

/// Publishes an action with an id of its own and gives the answer.
async fn ask(world: &World, body: &Value) -> Value {
    ask_as(world, &Uuid::now_v7().to_string(), body).await
}

/// Publishes an action under an id and gives the answer.
async fn ask_as(world: &World, id: &str, body: &Value) -> Value {
    ask_with(world, &QueuedMessage::new(body.to_string().as_bytes()).with_id(id)).await
}

/// Publishes a message and gives the answer.
async fn ask_with(world: &World, message: &QueuedMessage) -> Value {
    let answer = world.queues.ask("crm", message).await;
    serde_json::from_slice(&answer.body).unwrap_or_else(|error| panic!("no JSON ({error}): {answer:?}"))
}

/// Publishes an action that must be done, and gives the answer.
async fn done(world: &World, name: &str, fields: Value) -> Value {
    let body = action(name, fields);
    let answer = ask(world, &body).await;
    assert_eq!(answer["ok"], true, "{body}: {answer}");
    answer
}

/// Publishes an action that must be refused, and gives the error.
async fn refused(world: &World, body: &Value, status: u16, code: &str) -> Value {
    let answer = ask(world, body).await;
    assert_eq!((&answer["statusCode"], &answer["code"]), (&json!(status), &json!(code)), "{body}: {answer}");
    assert!(answer["message"].as_str().is_some_and(|message| !message.is_empty()), "{answer}");
    assert_eq!(answer.get("ok"), None);
    answer
}

/// Opens an enquiry of Ana's and gives the answer.
async fn opened(world: &World) -> Value {
    done(world, "open-lead", json!({"email": "ana@example.com", "name": "Ana"})).await
}

/// Opens an enquiry without a trip.
async fn opened_without_trip(world: &World) -> Value {
    done(world, "open-lead", json!({"email": "ana@example.com", "noTrip": true})).await
}

/// A GET of a records route.
async fn get(world: &World, route: &str) -> Answer {
    world.http().send(&world.key.records("GET", &format!("{RECORDS}{route}"), "")).await
}

/// A PATCH of a records route.
async fn patch(world: &World, route: &str, body: &Value) -> Answer {
    world.http().send(&world.key.records("PATCH", &format!("{RECORDS}{route}"), body.to_string())).await
}

/// The enquiry of an answer, as the API shows it.
async fn lead(world: &World, of: &Value) -> Value {
    get(world, &format!("/leads/{}", text(&of["leadId"]))).await.json()["data"].clone()
}

/// The route of its trip.
fn trip_route(of: &Value) -> String {
    format!("/leads/{}/trip", text(&of["leadId"]))
}

/// Its trip, as the API shows it.
async fn trip(world: &World, of: &Value) -> Value {
    get(world, &trip_route(of)).await.json()["data"].clone()
}

/// Subscribes someone to `acme`'s outbound events, which are written only where somebody listens.
async fn subscribe(world: &World) {
    let create = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    world.connectctl.json(&create).await;
}

/// What was written to the outbox since it was last asked for, oldest first.
async fn emitted(world: &World) -> Vec<Value> {
    let query = "SELECT event_type, key_prefix, origin, envelope FROM outbox ORDER BY event_id";
    let rows = world.database.rows(query, &[]).await;
    world.database.execute("DELETE FROM outbox").await;
    rows
}

/// Their types.
fn types(emitted: &[Value]) -> Vec<&str> {
    emitted.iter().map(|row| text(&row["event_type"])).collect()
}

/// Waits until the queue is worked off and its dead letters are `dead`.
async fn until_settled(world: &World, dead: u32) {
    eventually("the queue is worked off", PATIENCE, async || {
        match (world.queues.depth("crm").await, world.queues.depth("crm.dead").await) {
            (0, found) if found == dead => Ok(()),
            found => Err(format!("{found:?} waiting and dead")),
        }
    })
    .await;
}

/// How many actions with that status the first worker has counted.
async fn counted(world: &World, status: &str) -> f64 {
    world.workers[0].metrics().await.sum("connect_actions_total", &[("status", status)])
}

/// What the database holds of the agencies' records, to see that nothing changed.
async fn records(world: &World) -> Vec<Value> {
    let mut all = Vec::new();
    for table in
        ["clients", "leads", "trips", "proposals", "invoices", "notifications", "event_ledger", "outbox"]
    {
        let query = format!("SELECT t FROM {table} t ORDER BY t::text");
        all.extend(world.database.rows(&query, &[]).await);
    }
    all
}
