//! Records routes while a dependency is unavailable (D21c): 503 at once, and its message is true. A write whose caller
//! got it is not applied later, and its retry applies it once (architecture: Invariant 6).

mod redelivery;

use crate::faults::fill_queue;
use crate::records::replica::with_replica;
use crate::records::{
    Route, every_read, every_route, every_write, get, lead_route, new_lead, post_request, reads_on, record,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::{HttpRequest, HttpResponse, MAX_WAIT, World, batch, event, eventually};

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

#[tokio::test]
async fn without_the_replay_store_every_route_gets_503_and_changes_nothing() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "3s").start().await;
    let lead = new_lead(&world, json!({})).await;
    world.until_ready().await;
    let (routes, before) = (signed(&world, every_route(&lead)), stored(&world).await);
    world.proxies().postgres.reset_connections();
    for (route, request) in &routes {
        let begun = Instant::now();
        assert_unavailable(&world.http().send(request).await, "replay_store_unavailable", route);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
    world.proxies().postgres.restore();
    world.until_ready().await;
    assert_eq!(stored(&world).await, before);
    assert_all_succeed(&world, &routes).await;
}

#[tokio::test]
async fn without_the_broker_writes_get_503_and_reads_succeed() {
    let world = World::with().through_proxies().start().await;
    let lead = new_lead(&world, json!({})).await;
    world.until_ready().await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    world.proxies().broker.reset_connections();
    world.ingests[0].until_unready().await;
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "overloaded", route);
    }
    assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().broker.restore();
    world.until_ready().await;
    assert_eq!(stored(&world).await, before);
    assert_all_succeed(&world, &writes).await;
}

#[tokio::test]
async fn without_the_replica_records_are_read_on_the_primary() {
    let world = with_replica().await;
    let lead = new_lead(&world, json!({})).await;
    assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().postgres.reset_connections();
    for _ in 0..3 {
        assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    }
    assert_all_succeed(&world, &signed(&world, every_write(&lead))).await;
    world.proxies().postgres.restore();
    eventually("the replica is read again", MAX_WAIT, async || {
        let before = reads_on(&world, "replica").await;
        assert_eq!(get(&world, &lead_route(&lead)).await.status, 200);
        if reads_on(&world, "replica").await > before { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_rejects_writes_and_their_retry_applies_them_once() {
    let world = World::with().workers(0).set("CONNECT_QUEUE_MAX_LENGTH", "5");
    let mut world = world.set("CONNECT_REPLY_TIMEOUT", "1s").start().await;
    let [waited, refused] = fill_queue(async |i| {
        let body = json!({"email": format!("{i}@example.com")});
        let request = post_request(&world.key, "/clients", &format!("k-{i}"), &body);
        let response = world.http().send(&request).await;
        (request, response)
    })
    .await;
    refused.iter().for_each(|(_, response)| assert_unavailable(response, "overloaded", &"a full queue"));
    // This may differ from `waited.len()`: the broker may have rejected a message after its request had timed out.
    let queued = world.queues.depth("records").await;
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.add_worker().await;
    world.restart_ingest().await;
    until_handled(&world, f64::from(queued)).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    for (request, _) in refused.iter().chain(&waited[..2]) {
        assert_done_once_by_retries(&world, request).await;
    }
}

async fn with_long_reply_timeout(world: &mut World) {
    world.restart_ingest_with("CONNECT_REPLY_TIMEOUT", "30s").await;
}

#[tokio::test]
async fn a_write_that_timed_out_without_a_worker_is_not_applied_later() {
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    world.end_workers().await;
    world.restart_ingest_with("CONNECT_REPLY_TIMEOUT", "300ms").await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "processing_timeout", route);
    }
    assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    world.until_depth("records", 5).await;

    world.add_worker().await;
    until_handled(&world, 5.0).await;
    assert_eq!(stored(&world).await, before, "their callers were told 503");
    with_long_reply_timeout(&mut world).await;
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
    assert_eq!(world.queues.depth("records.dead").await, 0);
}

#[tokio::test]
async fn a_write_delayed_by_a_hanging_broker_is_not_applied_later() {
    let mut world = World::with()
        .through_proxies()
        .set("CONNECT_REPLY_TIMEOUT", "2s")
        .set("CONNECT_PUBLISH_TIMEOUT", "200ms")
        .start()
        .await;
    world.until_ready().await;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    assert_unavailable(&world.http().send(&request).await, "processing_timeout", &"stalled");
    world.proxies().broker.restore();
    world.until_ready().await;
    until_handled(&world, 1.0).await;
    with_long_reply_timeout(&mut world).await;
    assert_done_once_by_retries(&world, &request).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn waits_for_a_slow_broker_as_long_as_for_the_worker() {
    let world = World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "200ms").start().await;
    world.until_ready().await;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    let slow = async {
        world.ingests[0].until_sum("connect_backlog_units", &[("queue", "records")], 1.0).await;
        // A batch fails after CONNECT_PUBLISH_TIMEOUT, so at its response the write has waited for longer.
        let batch = world.key.events(batch(&[event("contact.identified").email("bo@example.com")]));
        assert_unavailable(&world.http().send(&batch).await, "processing_timeout", &"a batch");
        world.proxies().broker.restore();
    };
    let (response, ()) = futures_util::join!(world.http().send(&request), slow);
    record(&response, 201);
}

#[tokio::test]
async fn a_write_whose_connection_broke_is_not_applied_after_its_503() {
    let world = World::with().through_proxies().workers(0).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    let mut world = world;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    let broken = async {
        world.until_depth("records", 1).await;
        world.proxies().broker.reset_connections_once();
    };
    let (response, ()) = futures_util::join!(world.http().send(&request), broken);
    assert_unavailable(&response, "processing_timeout", &"cut");
    world.add_worker().await;
    until_handled(&world, 1.0).await;
    world.until_ready().await;
    with_long_reply_timeout(&mut world).await;
    assert_done_once_by_retries(&world, &request).await;
}

#[tokio::test]
async fn a_write_delayed_by_a_hanging_database_is_not_applied_after_its_503() {
    let mut world = World::with().through_proxies().start().await;
    // The worker has applied a write, so that its connections are open and hang within the next one.
    let lead = new_lead(&world, json!({})).await;
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.restart_ingest_with("CONNECT_REPLY_TIMEOUT", "1s").await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    world.proxies().postgres.stall();
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "processing_timeout", route);
    }
    world.proxies().postgres.restore();
    until_handled(&world, 6.0).await;
    assert_eq!(stored(&world).await, before, "their callers were told 503");
    let failed = [("name", "apply_write"), ("outcome", "failed")];
    let counted = world.workers[0].metrics().await;
    assert_eq!(counted.sum("connect_db_transactions_total", &failed), 0.0, "a deadline is no failure");
    with_long_reply_timeout(&mut world).await;
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
}
