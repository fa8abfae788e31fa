//! Records routes while something is away (D21c): 503, and what its caller was told is true.

mod again;
mod away;
mod deadline;

use crate::records::{Route, record};
use serde_json::Value;
use tests::{Answer, Outgoing, PATIENCE, World, eventually};

/// What is stored of clients, enquiries, trips and inbox threads.
async fn stored(world: &World) -> Vec<Value> {
    let query = "SELECT (SELECT json_agg(c ORDER BY client_id) FROM clients c) AS clients,
                        (SELECT json_agg(l ORDER BY lead_id) FROM leads l) AS leads,
                        (SELECT json_agg(t ORDER BY trip_id) FROM trips t) AS trips,
                        (SELECT count(*) FROM inbox_messages) AS messages,
                        (SELECT count(*) FROM idempotency_keys) AS answers";
    world.database.rows(query, &[]).await
}

/// Checks that an answer is this 503, with a wait and a message that is true of reads and writes as well.
#[track_caller]
fn assert_unavailable(answer: &Answer, code: &str, what: &impl std::fmt::Debug) {
    assert_eq!(answer.status, 503, "{what:?}: {answer:?}");
    let message = answer.assert_error(503, code);
    assert!(!message.contains("ingested"), "{message}");
    let wait: u32 = answer.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&wait), "{wait}");
}

/// Sends requests that are all to be answered with success.
async fn all_pass(world: &World, routes: &[(Route, Outgoing)]) {
    for (route, request) in routes {
        let answer = world.http().send(request).await;
        assert_eq!(answer.status, route.success(), "{route:?}: {answer:?}");
        assert_eq!(answer.header("idempotent-replayed"), "", "{route:?}");
    }
}

fn signed(world: &World, routes: Vec<Route>) -> Vec<(Route, Outgoing)> {
    routes.into_iter().map(|route| (route.clone(), route.signed(&world.key))).collect()
}

/// Waits until so many writes wait in the queue.
async fn until_queued(world: &World, count: u32) {
    eventually("writes wait", PATIENCE, async || match world.queues.depth("records").await {
        found if found == count => Ok(()),
        found => Err(format!("{found} of {count}")),
    })
    .await;
}

/// Waits until the last worker has handled so many writes, whatever came of them.
async fn until_handled(world: &World, count: f64) {
    let worker = world.workers.last().expect("a worker");
    eventually("writes are handled", PATIENCE, async || {
        let samples = worker.metrics().await;
        match samples.sum("connect_queue_lag_seconds_count", &[("queue", "records")]) {
            found if found == count => Ok(()),
            found => Err(format!("{found} of {count}")),
        }
    })
    .await;
}

/// Sends a POST again, as its caller would: signed anew, with the same key and body.
async fn retry(world: &World, request: &Outgoing) -> Answer {
    let again = world.key.records(&request.method, &request.target, request.body.clone());
    world.http().send(&again.with("idempotency-key", request.header("idempotency-key"))).await
}

/// Checks that a POST that was told 503 was not done, and is done once by its retries.
async fn assert_done_once_by_retries(world: &World, request: &Outgoing) {
    let first = retry(world, request).await;
    assert_eq!(first.header("idempotent-replayed"), "", "it was done before: {first:?}");
    let made = record(&first, 201);
    let second = retry(world, request).await;
    assert_eq!((record(&second, 201), second.header("idempotent-replayed")), (made, "true"));
}
