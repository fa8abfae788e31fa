//! What was confirmed is applied, failed or in flight: the number of events that are none of these is 0 until a message is lost.

use serde_json::{Value, json};
use tests::event::Event;
use tests::{MAX_WAIT, QueuedMessage, World, WorldBuilder, event, eventually, text};
use uuid::Uuid;

/// Waits until ingest shows these numbers: confirmed, settled, in flight, unaccounted. None may be forgotten.
async fn until_accounts(world: &World, expected: [f64; 4]) {
    let names = ["confirmed_total", "settled_total", "in_flight", "unaccounted", "forgotten_total"];
    let [confirmed, settled, in_flight, unaccounted] = expected;
    let expected = [confirmed, settled, in_flight, unaccounted, 0.0].map(Some);
    eventually("the accounts", MAX_WAIT, async || {
        let samples = world.ingests[0].metrics().await;
        let seen =
            names.map(|name| samples.of(&format!("connect_events_{name}")).next().map(|found| found.value));
        if seen == expected { Ok(()) } else { Err(format!("{seen:?}")) }
    })
    .await;
}

/// A world whose requests get no reply before they time out.
fn without_workers() -> WorldBuilder {
    World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "1s")
}

fn applied(name: &str) -> Event {
    event("contact.identified").email(&format!("{name}@example.com"))
}

/// An event that fails: its contact does not exist.
fn failing() -> Event {
    event("contact.updated").email("nobody@example.com")
}

async fn send_without_reply(world: &World, events: &[Event]) {
    world.send(events).await.assert_error(503, "processing_timeout");
}

async fn count(world: &World, table: &str) -> i64 {
    world.database.count(&format!("SELECT count(*) FROM {table}")).await
}

#[tokio::test]
async fn events_are_settled_by_their_reply_whatever_their_result() {
    let world = World::start().await;
    until_accounts(&world, [0.0; 4]).await;
    let ana = applied("ana");
    let results = world.results(&[ana.clone(), failing(), ana]).await;
    let statuses: Vec<&Value> = results.iter().map(|result| &result["status"]).collect();
    assert_eq!(statuses, ["accepted", "failed", "duplicate"]);
    until_accounts(&world, [3.0, 3.0, 0.0, 0.0]).await;
}

#[tokio::test]
async fn events_are_in_flight_until_they_are_applied_after_their_callers_timeout() {
    let mut world = without_workers().start().await;
    send_without_reply(&world, &[applied("ana"), failing()]).await;
    until_accounts(&world, [2.0, 0.0, 2.0, 0.0]).await;
    world.add_worker().await;
    until_accounts(&world, [2.0, 2.0, 0.0, 0.0]).await;
    assert_eq!(count(&world, "event_ledger").await, 1);
}

#[tokio::test]
async fn events_of_a_lost_message_are_unaccounted_until_their_caller_resends_them() {
    let mut world = without_workers().set("CONNECT_REPLY_TIMEOUT", "5s").start().await;
    let events = [applied("ana"), applied("ben"), failing()];
    send_without_reply(&world, &events).await;
    world.queues.take("events").await.expect("the message");
    world.add_worker().await;
    // The third event would fail in any case.
    until_accounts(&world, [3.0, 1.0, 0.0, 2.0]).await;
    world.ingests[0].until_logged("RabbitMQ confirmed are neither applied nor failed").await;
    assert_eq!(count(&world, "event_ledger").await, 0, "a check applies nothing");
    assert_eq!(world.send(&events).await.status, 200);
    until_accounts(&world, [6.0, 6.0, 0.0, 0.0]).await;
}

#[tokio::test]
async fn events_whose_replies_are_lost_with_the_connection_are_settled_by_a_check() {
    let mut world = without_workers().through_proxies().start().await;
    send_without_reply(&world, &[applied("ana"), failing()]).await;
    world.proxies().broker.reset_connections_once();
    world.until_ready().await;
    world.add_worker().await;
    until_accounts(&world, [2.0, 2.0, 0.0, 0.0]).await;
    let sent = world.ingests[0].metrics().await;
    let checks = sent.sum("connect_publish_total", &[("queue", "events"), ("outcome", "replied")]);
    assert!(checks >= 1.0, "{checks}");
    assert_eq!(count(&world, "event_ledger").await, 1);
}

/// Batches as messages of ingest, each with a check of it. Ingest is ended, so that it sends no checks of its own.
async fn messages_and_checks<const N: usize>(
    world: &mut World,
    batches: [&[Event]; N],
) -> [(QueuedMessage, QueuedMessage); N] {
    for events in batches {
        send_without_reply(world, events).await;
    }
    world.ingests.clear();
    let messages = world.queues.take_all("events").await;
    let with_checks: Vec<_> = messages.into_iter().map(with_check).collect();
    with_checks.try_into().expect("a message for each batch")
}

fn with_check(message: QueuedMessage) -> (QueuedMessage, QueuedMessage) {
    let meta = message.header("x-connect-meta").expect("metadata");
    let mut meta: Value = serde_json::from_str(&meta).expect("JSON");
    assert_eq!(meta.get("checkOf"), None);
    meta["checkOf"] = meta["requestId"].clone();
    meta["requestId"] = json!(Uuid::now_v7());
    let check = message.clone().with_meta(&meta.to_string());
    (message, check)
}

/// The number of settled events, by a check.
async fn settled(world: &World, check: &QueuedMessage) -> u64 {
    let reply = world.queues.call("events", check).await;
    let reply: Value = serde_json::from_slice(&reply.body).expect("JSON");
    reply["settled"].as_u64().unwrap_or_else(|| panic!("{reply}"))
}

#[tokio::test]
async fn a_check_decides_about_the_events_and_stores_nothing() {
    let mut world = without_workers().start().await;
    let lead = event("enquiry.submitted").email("ben@example.com");
    let events = [applied("ana"), failing(), lead];
    let [(message, check)] = messages_and_checks(&mut world, [&events]).await;
    world.add_worker().await;
    for _ in 0..6 {
        assert_eq!(settled(&world, &check).await, 1);
    }
    for table in ["event_ledger", "clients", "leads", "timeline", "notifications"] {
        assert_eq!(count(&world, table).await, 0, "{table}");
    }
    world.queues.call("events", &message).await;
    assert_eq!(settled(&world, &check).await, 3);
    let number = world.database.rows("SELECT enquiry_number FROM leads", &[]).await;
    let number = text(&number[0]["enquiry_number"]);
    let number: u32 = number[number.len() - 6..].parse().expect("six digits");
    // Each of the two lanes may leave a gap of one, because it uses no number that was reserved before it was connected.
    assert!(number <= 3, "checks use no numbers: {number}");
    let worker = world.workers[0].metrics().await;
    assert_eq!(worker.sum("connect_events_total", &[]), 3.0, "the events of checks are not counted");
}

#[tokio::test]
async fn an_event_that_failed_beside_an_applied_one_is_settled_though_it_would_be_applied_now() {
    let mut world = without_workers().start().await;
    let events = [event("contact.updated").email("ana@example.com"), applied("ana")];
    let [(message, check), (_, check_of_another)] = messages_and_checks(&mut world, [&events, &events]).await;
    world.add_worker().await;
    world.queues.call("events", &message).await;
    assert_eq!(settled(&world, &check).await, 2);
    assert_eq!(settled(&world, &check_of_another).await, 1);
}

#[tokio::test]
async fn checks_beside_waiting_messages_get_their_own_replies() {
    let mut world = without_workers().start().await;
    let batches: [&[Event]; 2] = [&[applied("ana"), failing()], &[applied("ben")]];
    let [(message, check), (other, other_check)] = messages_and_checks(&mut world, batches).await;
    world.queues.publish_all("events", &[message.without_reply(), other.without_reply()]).await;
    // All four wait when the worker starts, which has one lane.
    world.set("CONNECT_WORKER_LANES", "1");
    let starting = async {
        world.until_depth("events", 4).await;
        tests::Program::worker(world.settings()).await
    };
    let calls = futures_util::join!(
        world.queues.call("events", &check),
        world.queues.call("events", &other_check),
        starting
    );
    for reply in [calls.0, calls.1] {
        let reply: Value = serde_json::from_slice(&reply.body).expect("JSON");
        assert!(reply["settled"].is_u64(), "{reply}");
    }
    world.until_applied(2).await;
    assert_eq!((settled(&world, &check).await, settled(&world, &other_check).await), (2, 1));
}

/// A bundle of two messages with one batch each.
fn bundle(messages: [&QueuedMessage; 2]) -> QueuedMessage {
    let texts = messages.map(|message| {
        let body = std::str::from_utf8(&message.body).expect("UTF-8");
        body.strip_prefix("{\"events\":[").and_then(|rest| rest.strip_suffix("]}")).expect("a batch")
    });
    let mut meta: Value =
        serde_json::from_str(&messages[0].header("x-connect-meta").expect("metadata")).expect("JSON");
    let part = |text: &str| json!({"requestId": Uuid::now_v7(), "events": 1, "bytes": text.len()});
    meta["requestId"] = json!(Uuid::now_v7());
    meta["events"] = json!(2);
    meta["parts"] = json!(texts.map(part));
    let body = format!("{{\"events\":[{}]}}", texts.join(","));
    messages[0].with_body(body.as_bytes()).with_meta(&meta.to_string())
}

#[tokio::test]
async fn a_check_of_a_bundle_counts_the_events_of_all_parts() {
    let mut world = without_workers().start().await;
    let batches: [&[Event]; 2] = [&[applied("ana")], &[failing()]];
    let [(ana, _), (nobody, _)] = messages_and_checks(&mut world, batches).await;
    let (message, check) = with_check(bundle([&ana, &nobody]));
    world.add_worker().await;
    assert_eq!(settled(&world, &check).await, 1);
    world.queues.call("events", &message).await;
    assert_eq!(settled(&world, &check).await, 2);
    assert_eq!(count(&world, "event_ledger").await, 1);
}

#[tokio::test]
async fn a_check_of_an_unreadable_message_settles_nothing_and_is_no_dead_letter() {
    let mut world = without_workers().start().await;
    let [(_, check)] = messages_and_checks(&mut world, [&[applied("ana")]]).await;
    world.set("CONNECT_WORKER_LANES", "1");
    world.add_worker().await;
    let unreadable = check.with_body(b"{\"events\":[]]");
    // The lane rejects messages after its replies: the first check is acknowledged, or rejected, when the second is replied to.
    for _ in 0..2 {
        assert_eq!(settled(&world, &unreadable).await, 0);
    }
    assert_eq!(world.queues.depth("events.dead").await, 0);
}

#[tokio::test]
async fn a_redelivered_check_settles_nothing_because_it_may_have_ended_a_worker() {
    let mut world = without_workers().start().await;
    let [(_, check)] = messages_and_checks(&mut world, [&[failing()]]).await;
    let starting = async {
        world.until_depth("events", 1).await;
        world.queues.requeue("events").await;
        tests::Program::worker(world.settings()).await
    };
    let (redelivered, _worker) = futures_util::join!(settled(&world, &check), starting);
    assert_eq!(redelivered, 0);
    assert_eq!(settled(&world, &check).await, 1);
}
