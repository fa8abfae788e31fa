//! Records routes while something is away (D21c): 503, and what its caller was told is true.

use super::until_ready;
use crate::records::{
    Route, at, client_route, data, every_read, every_route, every_write, get, lead_route, new_lead, patch_of,
    post_of, record, trip_route,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::{Answer, Outgoing, PATIENCE, World, eventually, text};

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
        match samples.sum("connect_apply_duration_seconds_count", &[("queue", "records")]) {
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

#[tokio::test]
async fn while_the_replay_store_is_away_every_route_says_so_and_nothing_is_done_or_used_up() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "500ms").start().await;
    let lead = new_lead(&world, json!({})).await;
    until_ready(&world).await;
    let (routes, before) = (signed(&world, every_route(&lead)), stored(&world).await);
    world.proxies().postgres.cut();
    for (route, request) in &routes {
        let begun = Instant::now();
        assert_unavailable(&world.http().send(request).await, "replay_store_unavailable", route);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }
    world.proxies().postgres.restore();
    until_ready(&world).await;
    assert_eq!(stored(&world).await, before);
    all_pass(&world, &routes).await;
}

#[tokio::test]
async fn while_the_broker_is_away_writes_are_refused_reads_go_on_and_nothing_is_done_or_used_up() {
    let world = World::with().through_proxies().start().await;
    let lead = new_lead(&world, json!({})).await;
    until_ready(&world).await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    world.proxies().broker.cut();
    world.ingests[0].until_unready().await;
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "overloaded", route);
    }
    all_pass(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().broker.restore();
    until_ready(&world).await;
    assert_eq!(stored(&world).await, before);
    all_pass(&world, &writes).await;
}

#[tokio::test]
async fn while_the_database_for_reads_is_away_only_reads_are_refused() {
    let mut world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "500ms").start().await;
    let proxied =
        world.settings().iter().find(|(name, _)| name == "DATABASE_URL").expect("a setting").1.clone();
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.set("DATABASE_READ_URL", &proxied);
    world.restart_ingest().await;
    world.workers.clear();
    world.add_worker().await;
    let lead = new_lead(&world, json!({})).await;
    all_pass(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().postgres.cut();
    for (route, request) in signed(&world, every_read(&lead)) {
        assert_unavailable(&world.http().send(&request).await, "replay_store_unavailable", &route);
    }
    all_pass(&world, &signed(&world, every_write(&lead))).await;
    world.proxies().postgres.restore();
    eventually("reads pass again", PATIENCE, async || match get(&world, &lead_route(&lead)).await.status {
        200 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}

#[tokio::test]
async fn without_a_worker_a_write_times_out_and_is_not_begun_when_one_comes() {
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    world.workers.clear();
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "processing_timeout", route);
    }
    all_pass(&world, &signed(&world, every_read(&lead))).await;
    until_queued(&world, 5).await;

    world.add_worker().await;
    until_handled(&world, 5.0).await;
    assert_eq!(stored(&world).await, before, "their callers were told 503");
    world.set("CONNECT_REPLY_TIMEOUT", "10s");
    world.restart_ingest().await;
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
    assert_eq!(world.queues.depth("records.dead").await, 0);
}

#[tokio::test]
async fn a_write_that_a_hanging_broker_held_back_is_not_begun_when_it_goes_on() {
    let world = World::with()
        .through_proxies()
        .set("CONNECT_REPLY_TIMEOUT", "2s")
        .set("CONNECT_PUBLISH_TIMEOUT", "200ms")
        .start()
        .await;
    until_ready(&world).await;
    let request = post_of(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    assert_unavailable(&world.http().send(&request).await, "processing_timeout", &"stalled");
    world.proxies().broker.restore();
    until_ready(&world).await;
    assert_done_once_by_retries(&world, &request).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn a_broker_that_is_slow_to_take_a_write_is_waited_for_as_the_worker_is() {
    let world = World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "200ms").start().await;
    until_ready(&world).await;
    let request = post_of(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    let slow = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        world.proxies().broker.restore();
    };
    let (answer, ()) = futures_util::join!(world.http().send(&request), slow);
    record(&answer, 201);
}

#[tokio::test]
async fn a_write_whose_connection_broke_is_not_begun_after_its_caller_was_told() {
    let world = World::with().through_proxies().workers(0).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    let mut world = world;
    let request = post_of(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    let broken = async {
        until_queued(&world, 1).await;
        world.proxies().broker.cut_once();
    };
    let (answer, ()) = futures_util::join!(world.http().send(&request), broken);
    assert_unavailable(&answer, "processing_timeout", &"cut");
    world.add_worker().await;
    until_handled(&world, 1.0).await;
    until_ready(&world).await;
    assert_done_once_by_retries(&world, &request).await;
}

#[tokio::test]
async fn a_write_that_waited_for_a_hanging_database_is_not_kept_after_its_caller_was_told() {
    let mut world = World::with().through_proxies().set("CONNECT_REPLY_TIMEOUT", "1s").start().await;
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.restart_ingest().await;
    // Its worker has begun with one write already, so that its connections are there and hang in the middle.
    let lead = new_lead(&world, json!({})).await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    world.proxies().postgres.stall();
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "processing_timeout", route);
    }
    world.proxies().postgres.restore();
    until_handled(&world, 6.0).await;
    assert_eq!(stored(&world).await, before, "their callers were told 503");
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
}

#[tokio::test]
async fn a_full_queue_refuses_writes_and_what_it_refused_is_done_once_by_the_retry() {
    let world = World::with().workers(0).set("CONNECT_QUEUE_MAX_LENGTH", "5");
    let mut world = world.set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let (mut waited, mut refused) = (Vec::new(), Vec::new());
    // The broker counts with a delay: a few more than five may get in.
    for i in 0..100 {
        let body = json!({"email": format!("{i}@example.com")});
        let request = post_of(&world.key, "/clients", &format!("k-{i}"), &body);
        let answer = world.http().send(&request).await;
        match text(&answer.json()["code"]) {
            "processing_timeout" => waited.push(request),
            "overloaded" => {
                assert_unavailable(&answer, "overloaded", &i);
                refused.push(request);
            }
            other => panic!("{other}"),
        }
        if refused.len() == 3 {
            break;
        }
    }
    assert!(waited.len() >= 5 && refused.len() == 3, "{} waited, {} refused", waited.len(), refused.len());
    world.set("CONNECT_REPLY_TIMEOUT", "10s");
    world.add_worker().await;
    world.restart_ingest().await;
    until_handled(&world, waited.len() as f64).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    for request in refused.iter().chain(&waited[..2]) {
        assert_done_once_by_retries(&world, request).await;
    }
}

/// Sends a write whose message reaches the worker twice, the first time without anybody who waits; gives the answer to
/// the second delivery.
async fn delivered_twice(world: &mut World, request: &Outgoing) -> Answer {
    world.workers.clear();
    let ingest = tests::Http::new(world.http().address());
    let applied = "SELECT count(*) FROM event_ledger";
    let before = world.database.count(applied).await;
    let twice = async {
        until_queued(world, 1).await;
        let message = world.queues.take("records").await.expect("a message");
        world.queues.put("records", &message.without_reply()).await;
        world.add_worker().await;
        eventually("it is applied", PATIENCE, async || match world.database.count(applied).await - before {
            1 => Ok(()),
            other => Err(other.to_string()),
        })
        .await;
        world.queues.put("records", &message).await;
    };
    futures_util::join!(ingest.send(request), twice).0
}

#[tokio::test]
async fn a_write_that_is_delivered_again_is_answered_as_it_was_and_done_once() {
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let negotiated = patch_of(&world.key, &lead_route(&lead), &json!({"stage": "negotiation"}));
    record(&world.http().send(&negotiated).await, 200);
    let client = client_route(&json!({"id": lead["clientId"]}));
    let etag = get(&world, &client).await.header("etag").to_owned();
    let itinerary = json!({"title": "x", "days": []});
    let body = json!({"message": "Hello", "itinerary": itinerary});
    for (request, status) in [
        (post_of(&world.key, "/clients", "k-1", &json!({"email": "bo@example.com"})), 201),
        (post_of(&world.key, "/leads", "k-2", &json!({"clientId": lead["clientId"]})), 201),
        (patch_of(&world.key, &client, &json!({"name": "Bo"})).with("if-match", etag), 200),
        (patch_of(&world.key, &lead_route(&lead), &json!({"owner": "ben@acme.test"})), 200),
        (patch_of(&world.key, &trip_route(&lead), &body), 200),
    ] {
        let answer = delivered_twice(&mut world, &request).await;
        let shown = record(&answer, status);
        assert_eq!(answer.header("idempotent-replayed"), "", "its caller sent it once: {request:?}");
        if let Some(applied) = shown.get("itineraryApplied") {
            assert_eq!(
                (applied, &shown["itineraryNotAppliedReason"]),
                (&json!(false), &json!("advisor_working"))
            );
        } else if request.method == "PATCH" {
            let target = request.target.strip_prefix(&at("")).expect("a records route");
            assert_eq!(data(&get(&world, target).await, 200), shown);
        }
    }
    for (what, count) in [
        ("clients", 2),
        ("leads", 2),
        ("inbox_messages", 2),
        ("notifications WHERE kind = 'lead_assigned' AND recipient = 'ben@acme.test'", 2),
    ] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {what}")).await, count, "{what}");
    }
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], 7);
}

#[tokio::test]
async fn a_worker_that_is_killed_in_a_burst_of_writes_loses_and_repeats_nothing() {
    const WRITES: usize = 60;
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let ingest = tests::Http::new(world.http().address());
    let done = std::sync::atomic::AtomicUsize::new(0);
    let requests: Vec<_> = (0..WRITES)
        .map(|i| match i % 3 {
            0 => post_of(
                &world.key,
                "/leads",
                &format!("k-{i}"),
                &json!({"contact": {"externalId": format!("{i}")}}),
            ),
            1 => patch_of(&world.key, &trip_route(&lead), &json!({"message": format!("{i}")})),
            _ => patch_of(&world.key, &lead_route(&lead), &json!({"title": format!("{i}")})),
        })
        .collect();
    let send = async |request: &Outgoing| {
        let answer = ingest.send(request).await;
        done.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        answer
    };
    let kill = async {
        for part in [10, 25, 40] {
            eventually("writes go through", PATIENCE, async || {
                match done.load(std::sync::atomic::Ordering::Relaxed) {
                    done if done >= part => Ok(()),
                    done => Err(done.to_string()),
                }
            })
            .await;
            world.workers[0].kill();
            world.workers.clear();
            world.add_worker().await;
        }
    };
    // A few at once, so that there is always one in the worker's hands.
    let sending = async {
        let mut answers = Vec::new();
        for some in requests.chunks(4) {
            answers.extend(futures_util::future::join_all(some.iter().map(&send)).await);
        }
        answers
    };
    let (answers, ()) = futures_util::join!(sending, kill);
    for (request, answer) in requests.iter().zip(&answers) {
        record(answer, if request.method == "POST" { 201 } else { 200 });
        assert_eq!(answer.header("idempotent-replayed"), "", "{request:?}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 1 + 20);
    let messages = world.inbox(&lead["id"]).await;
    let mut texts: Vec<_> = messages.iter().map(|message| text(&message["text"]).to_owned()).collect();
    texts.sort();
    let mut expected: Vec<_> = (0..WRITES).filter(|i| i % 3 == 1).map(|i| i.to_string()).collect();
    expected.sort();
    assert_eq!(texts, expected);
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], WRITES + 1);
}
