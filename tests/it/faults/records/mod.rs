//! Records routes while a dependency is unavailable (D21c): 503, and its message is true.

mod deadline;
mod redelivery;
mod unavailable;

use crate::records::{Route, record};
use serde_json::Value;
use tests::{HttpRequest, HttpResponse, World};

/// The stored clients, leads, trips and inbox threads.
async fn stored(world: &World) -> Vec<Value> {
    let query = "SELECT (SELECT json_agg(c ORDER BY client_id) FROM clients c) AS clients,
                        (SELECT json_agg(l ORDER BY lead_id) FROM leads l) AS leads,
                        (SELECT json_agg(t ORDER BY trip_id) FROM trips t) AS trips,
                        (SELECT count(*) FROM inbox_messages) AS messages,
                        (SELECT count(*) FROM idempotency_keys) AS responses";
    world.database.rows(query, &[]).await
}

/// Checks that a response is a 503 with this code, a `Retry-After`, and a message that is true of reads and writes.
#[track_caller]
fn assert_unavailable(response: &HttpResponse, code: &str, what: &impl std::fmt::Debug) {
    assert_eq!(response.status, 503, "{what:?}: {response:?}");
    let message = response.assert_error(503, code);
    assert!(!message.contains("ingested"), "{message}");
    let wait: u32 = response.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
}

/// Sends requests that must all succeed.
async fn assert_all_succeed(world: &World, routes: &[(Route, HttpRequest)]) {
    for (route, request) in routes {
        let response = world.http().send(request).await;
        assert_eq!(response.status, route.success(), "{route:?}: {response:?}");
        assert_eq!(response.header("idempotent-replayed"), "", "{route:?}");
    }
}

fn signed(world: &World, routes: Vec<Route>) -> Vec<(Route, HttpRequest)> {
    routes.into_iter().map(|route| (route.clone(), route.signed(&world.key))).collect()
}

/// Waits until the last worker has handled `count` writes, whatever their outcome.
async fn until_handled(world: &World, count: f64) {
    let worker = world.workers.last().expect("a worker");
    worker.until_sum("connect_queue_lag_seconds_count", &[("queue", "records")], count).await;
}

/// Sends a POST again, as its caller would: with a new signature, the same key and body.
async fn retry(world: &World, request: &HttpRequest) -> HttpResponse {
    let again = world.key.records(&request.method, &request.target, request.body.clone());
    world.http().send(&again.with("idempotency-key", request.header("idempotency-key"))).await
}

/// Checks that a POST that got 503 was not applied, and that its retries apply it once.
async fn assert_done_once_by_retries(world: &World, request: &HttpRequest) {
    let first = retry(world, request).await;
    assert_eq!(first.header("idempotent-replayed"), "", "it was done before: {first:?}");
    let made = record(&first, 201);
    let second = retry(world, request).await;
    assert_eq!((record(&second, 201), second.header("idempotent-replayed")), (made, "true"));
}
