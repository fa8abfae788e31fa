//! The records API (specification: Records routes; D3, D10, D17-D23).

mod clients;
mod concurrency;
mod conditions;
mod credentials;
mod equivalence;
mod failures;
mod idempotency;
mod isolation;
mod leads;
mod limits;
mod lookups;
mod lost_updates;
mod outbound;
mod quota;
mod read_modify_write;
mod readme;
mod reads;
mod routes;
mod scopes;
mod signature;
mod strict;
mod trips;
mod units;

pub(crate) use routes::{Route, every_read, every_route, every_write};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{Answer, ApiKey, Outgoing, Program, RECORDS, World, text};
use uuid::Uuid;

/// The target of a records route.
pub(crate) fn at(route: &str) -> String {
    format!("{RECORDS}{route}")
}

/// A POST with this `Idempotency-Key`.
pub(crate) fn post_of(key: &ApiKey, route: &str, idempotency_key: &str, body: &Value) -> Outgoing {
    key.records("POST", &at(route), body.to_string()).with("idempotency-key", idempotency_key)
}

/// A PATCH.
pub(crate) fn patch_of(key: &ApiKey, route: &str, body: &Value) -> Outgoing {
    key.records("PATCH", &at(route), body.to_string())
}

/// Sends a POST with an `Idempotency-Key` of its own.
pub(crate) async fn post(world: &World, route: &str, body: Value) -> Answer {
    post_as(world, &world.key, route, body).await
}

/// [`post`] with another key.
async fn post_as(world: &World, key: &ApiKey, route: &str, body: Value) -> Answer {
    world.http().send(&post_of(key, route, &Uuid::now_v7().to_string(), &body)).await
}

/// Sends a PATCH.
pub(crate) async fn patch(world: &World, route: &str, body: Value) -> Answer {
    world.http().send(&patch_of(&world.key, route, &body)).await
}

/// Sends a GET.
pub(crate) async fn get(world: &World, route: &str) -> Answer {
    world.http().send(&world.key.records("GET", &at(route), "")).await
}

/// The record of an answer with that status; its ETag is the record's version.
#[track_caller]
pub(crate) fn record(answer: &Answer, status: u16) -> Value {
    let data = data(answer, status);
    assert_eq!(answer.header("etag"), format!("\"{}\"", text(&data["updatedAt"])), "{answer:?}");
    data
}

/// `data` of an answer with that status.
#[track_caller]
pub(crate) fn data(answer: &Answer, status: u16) -> Value {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), "application/json");
    let body = answer.json();
    let fields: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["data"], "{body}");
    body["data"].clone()
}

/// Checks that a request was refused with `code` and exactly one id beside the usual fields, and gives that.
#[track_caller]
fn refused_with(answer: &Answer, status: u16, code: &str, id: &str) -> Value {
    let body = answer.json();
    let mut fields: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    let mut expected = vec!["code", "message", "statusCode", id];
    expected.sort_unstable();
    assert_eq!(fields, expected, "{body}");
    assert_eq!(answer.status, status, "{body}");
    assert_eq!((&body["statusCode"], &body["code"]), (&json!(status), &json!(code)), "{body}");
    assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    body[id].clone()
}

/// A new client.
pub(crate) async fn new_client(world: &World, body: Value) -> Value {
    record(&post(world, "/clients", body).await, 201)
}

/// A new enquiry of the client `ana@example.com`, with further fields.
pub(crate) async fn new_lead(world: &World, fields: Value) -> Value {
    let mut body = json!({"contact": {"email": "ana@example.com", "name": "Ana"}});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    record(&post(world, "/leads", body).await, 201)
}

/// The route of an enquiry.
pub(crate) fn lead_route(lead: &Value) -> String {
    format!("/leads/{}", text(&lead["id"]))
}

/// The route of an enquiry's trip.
pub(crate) fn trip_route(lead: &Value) -> String {
    format!("{}/trip", lead_route(lead))
}

/// The route of a client.
pub(crate) fn client_route(client: &Value) -> String {
    format!("/clients/{}", text(&client["id"]))
}

/// Writes of the month that count, of `acme`.
async fn used(world: &World) -> Value {
    world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"].clone()
}

/// Whether a value is a time with milliseconds in UTC.
fn is_version(value: &Value) -> bool {
    let time = text(value);
    time.len() == 24 && time.as_bytes()[19] == b'.' && time.ends_with('Z')
}

/// Two of each program.
async fn doubled() -> World {
    let world = World::with().ingests(2).workers(2).start().await;
    for worker in &world.workers {
        worker.until_ready().await;
    }
    world
}

/// Sends requests at once, in turn over the ingests.
async fn at_once(world: &World, requests: &[Outgoing]) -> Vec<Answer> {
    let ingests = world.ingests.iter().map(Program::http).cycle();
    join_all(requests.iter().zip(ingests).map(|(request, http)| http.send(request))).await
}

/// Makes every insert into a table fail, until [`mend`].
pub(crate) async fn break_inserts(world: &World, table: &str) {
    let refuse =
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$";
    let trigger =
        format!("CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()");
    world.database.execute(&format!("{refuse}; {trigger}")).await;
}

/// Undoes [`break_inserts`].
pub(crate) async fn mend(world: &World) {
    world.database.execute("DROP FUNCTION refuse CASCADE").await;
}
