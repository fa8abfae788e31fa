//! The records API (specification: Records routes; D3, D10, D17-D23).

mod clients;
mod concurrency;
mod credentials;
mod equivalence;
mod failures;
mod idempotency;
mod limits;
mod lookups;
pub(crate) mod replica;
mod routes;
mod trips;
mod units;

pub(crate) use routes::{Route, every_read, every_route, every_write};

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{ApiKey, HttpClient, HttpRequest, HttpResponse, RECORDS, World, text};
use tokio::task::JoinHandle;
use uuid::Uuid;

pub(crate) fn records_target(route: &str) -> String {
    format!("{RECORDS}{route}")
}

/// A POST with this `Idempotency-Key`.
pub(crate) fn post_request(key: &ApiKey, route: &str, idempotency_key: &str, body: &Value) -> HttpRequest {
    key.records("POST", &records_target(route), body.to_string()).with("idempotency-key", idempotency_key)
}

pub(crate) fn patch_request(key: &ApiKey, route: &str, body: &Value) -> HttpRequest {
    key.records("PATCH", &records_target(route), body.to_string())
}

/// Sends a POST with an `Idempotency-Key` of its own.
pub(crate) async fn post(world: &World, route: &str, body: Value) -> HttpResponse {
    post_as(world, &world.key, route, body).await
}

/// [`post`] with another key.
async fn post_as(world: &World, key: &ApiKey, route: &str, body: Value) -> HttpResponse {
    world.http().send(&post_request(key, route, &Uuid::now_v7().to_string(), &body)).await
}

pub(crate) async fn patch(world: &World, route: &str, body: Value) -> HttpResponse {
    world.http().send(&patch_request(&world.key, route, &body)).await
}

pub(crate) async fn get(world: &World, route: &str) -> HttpResponse {
    world.http().send(&world.key.records("GET", &records_target(route), "")).await
}

/// How many look-ups were sent to a server: `primary` or `replica`.
pub(crate) async fn reads_on(world: &World, server: &str) -> f64 {
    world.ingests[0].metrics().await.sum("connect_record_reads_total", &[("server", server)])
}

/// The record of a response with that status; its ETag is the record's version.
#[track_caller]
pub(crate) fn record(response: &HttpResponse, status: u16) -> Value {
    let data = data(response, status);
    assert_eq!(response.header("etag"), format!("\"{}\"", text(&data["updatedAt"])), "{response:?}");
    data
}

/// `data` of a response with that status.
#[track_caller]
pub(crate) fn data(response: &HttpResponse, status: u16) -> Value {
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.header("content-type"), "application/json");
    assert_eq!(response.header("cache-control"), "no-store", "a cache knows nothing of signatures");
    let body = response.json();
    let fields: Vec<&String> = body.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["data"], "{body}");
    body["data"].clone()
}

/// Checks that a request was refused with `code` and exactly one more field than usual, and returns that field.
#[track_caller]
fn refused_with(response: &HttpResponse, status: u16, code: &str, id: &str) -> Value {
    let body = response.json();
    let mut fields: Vec<&str> = body.as_object().expect("an object").keys().map(String::as_str).collect();
    fields.sort_unstable();
    let mut expected = vec!["code", "message", "statusCode", id];
    expected.sort_unstable();
    assert_eq!(fields, expected, "{body}");
    assert_eq!(response.status, status, "{body}");
    assert_eq!((&body["statusCode"], &body["code"]), (&json!(status), &json!(code)), "{body}");
    assert!(body["message"].as_str().is_some_and(|message| !message.is_empty()), "{body}");
    body[id].clone()
}

pub(crate) async fn new_client(world: &World, body: Value) -> Value {
    record(&post(world, "/clients", body).await, 201)
}

/// A new lead of the client `ana@example.com`, with further fields.
pub(crate) async fn new_lead(world: &World, fields: Value) -> Value {
    let mut body = json!({"contact": {"email": "ana@example.com", "name": "Ana"}});
    for (name, value) in fields.as_object().expect("an object") {
        body[name] = value.clone();
    }
    record(&post(world, "/leads", body).await, 201)
}

/// The shared world, with a new lead.
async fn joined_with_lead() -> (World, Value) {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    (world, lead)
}

/// Sends a request to the first ingest in a task of its own.
fn spawn(world: &World, request: HttpRequest) -> JoinHandle<HttpResponse> {
    let http = HttpClient::new(world.http().address());
    tokio::spawn(async move { http.send(&request).await })
}

pub(crate) fn lead_route(lead: &Value) -> String {
    format!("/leads/{}", text(&lead["id"]))
}

pub(crate) fn trip_route(lead: &Value) -> String {
    format!("{}/trip", lead_route(lead))
}

pub(crate) fn client_route(client: &Value) -> String {
    format!("/clients/{}", text(&client["id"]))
}

/// The routes of a new client, lead and trip, each with a text field that can be changed.
async fn changeable_routes(world: &World) -> [(String, &'static str); 3] {
    let lead = new_lead(world, json!({})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    [(client, "name"), (lead_route(&lead), "title"), (trip_route(&lead), "destination")]
}

/// The metered writes of `acme` in this month.
async fn writes_used(world: &World) -> Value {
    world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"].clone()
}

/// Whether a value is a time with milliseconds in UTC.
fn is_version(value: &Value) -> bool {
    let time = text(value);
    time.len() == 24 && time.as_bytes()[19] == b'.' && time.ends_with('Z')
}

/// Sends requests concurrently, spread over the ingests.
async fn send_at_once(world: &World, requests: &[HttpRequest]) -> Vec<HttpResponse> {
    join_all(requests.iter().zip(world.all_http().into_iter().cycle()).map(|(request, http)| http.send(request))).await
}

/// Makes every insert into a table fail, until [`restore_inserts`].
pub(crate) async fn break_inserts(world: &World, table: &str) {
    let refuse = "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$";
    let trigger = format!("CREATE TRIGGER refuse BEFORE INSERT ON {table} FOR EACH ROW EXECUTE FUNCTION refuse()");
    world.database.execute(&format!("{refuse}; {trigger}")).await;
}

/// Undoes [`break_inserts`].
pub(crate) async fn restore_inserts(world: &World) {
    world.database.execute("DROP FUNCTION refuse CASCADE").await;
}
