//! What the worker does with bundles that are delivered more than once, which are applied once and get the same results
//! (architecture: Invariant 2), and with those that ingest would not publish: an unreadable part, or parts that do not
//! match the body.

use super::{
    assert_own_results, enquiry_submitted, events_of, identified_each, request_ids, results, send_and_take_messages,
    send_during_a_publish, stallable,
};
use serde_json::{Value, json};
use tests::{HttpRequest, HttpResponse, Program, QueuedMessage, World, batch, event};

fn enquiry_requests(world: &World, count: usize) -> Vec<HttpRequest> {
    (0..count).map(|i| world.key.events(batch(&[enquiry_submitted(&format!("{i}@example.com"))]))).collect()
}

#[tokio::test]
async fn a_redelivered_bundle_gets_its_original_results_and_is_applied_once() {
    let mut world = stallable().workers(0).start().await;
    let requests = enquiry_requests(&world, 5);
    let (first, rest) = requests.split_at(1);
    let mut early = None;
    let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
        // The reply to the first delivery is lost.
        world
            .queues
            .publish_all("events", &messages.iter().map(QueuedMessage::without_reply).collect::<Vec<_>>())
            .await;
        early = Some(Program::worker(world.settings()).await);
        world.until_applied(5).await;
        world.queues.publish_all("events", &messages).await;
    })
    .await;
    assert_own_results(&requests, &responses);
    for what in ["leads", "timeline", "trips"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {what}")).await, 5, "{what}");
    }
}

#[tokio::test]
async fn a_bundle_of_a_worker_killed_after_its_commit_gets_the_same_results_from_another() {
    let mut world = stallable().start().await;
    let requests = enquiry_requests(&world, 4);
    let (first, rest) = requests.split_at(1);
    // Units wait at the first table that they read.
    let blocking = world.database.begin("LOCK TABLE event_ledger IN ACCESS EXCLUSIVE MODE").await;
    let settings = world.settings().to_vec();
    let mut worker = world.workers.remove(0);
    let proxies = world.proxies();
    let database = &world.database;
    let killing = async {
        super::until_published(&world.ingests[0], requests.len()).await;
        world.until_depth("events", 0).await;
        database.until_lock_wait().await;
        // Neither replies nor acknowledgements reach the broker.
        proxies.broker.stall();
        blocking.batch_execute("COMMIT").await.expect("a commit");
        world.until_applied(4).await;
        worker.kill();
        proxies.broker.restore();
        Program::worker(&settings).await
    };
    let (responses, _second) = futures_util::join!(send_during_a_publish(&world, first, rest), killing);
    assert_own_results(&requests, &responses);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 4);
    let stored = world.database.rows("SELECT event_id, lead_id FROM event_ledger", &[]).await;
    for (request, response) in requests.iter().zip(&responses) {
        let (event, result) = (&events_of(request)[0], &results(response)[0]);
        let row = stored.iter().find(|row| row["event_id"] == event["eventId"]).expect("a row");
        assert_eq!(row["lead_id"], result["leadId"]);
    }
}

#[tokio::test]
async fn a_worker_killed_between_the_two_round_trips_of_a_bundle_applies_none_of_it() {
    let mut world = stallable().start().await;
    // The two lanes consume one message each.
    world.until_ready().await;
    let client = "INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
        SELECT tenant_id, gen_random_uuid(), 'Ana', 'ana@gmail.com', 'ana@gmail.com', 'individual', now(), now() FROM tenants";
    world.database.execute(client).await;
    let mut requests = enquiry_requests(&world, 3);
    requests.push(world.key.events(batch(&[event("booking.abandoned").email("ana@gmail.com")])));
    let (first, rest) = requests.split_at(1);
    let blocking = world.database.begin("SELECT FROM clients FOR UPDATE").await;
    let settings = world.settings().to_vec();
    let mut worker = world.workers.remove(0);
    let (proxies, database) = (world.proxies(), &world.database);
    let count_is = async |condition: &str, expected: i64| {
        let query = format!(
            "SELECT count(*) FROM pg_stat_activity
             WHERE datname = current_database() AND application_name = 'worker' AND {condition}"
        );
        database.until_count(&query, expected).await;
    };
    let killing = async {
        super::until_published(&world.ingests[0], requests.len()).await;
        world.until_depth("events", 0).await;
        world.until_applied(1).await;
        // The unit of the bundle waits for 200 ms at a time, and this is a new wait.
        let waits = "wait_event_type = 'Lock' AND query_start > now() - interval '60 ms'";
        count_is(waits, 1).await;
        // The first round trip completes on the server, and the worker never gets the result.
        proxies.postgres.stall();
        blocking.batch_execute("COMMIT").await.expect("a commit");
        count_is("state = 'idle in transaction'", 1).await;
        worker.kill();
        proxies.postgres.restore();
        count_is("state = 'idle in transaction'", 0).await;
        assert_eq!(database.count("SELECT count(*) FROM event_ledger").await, 1);
        Program::worker(&settings).await
    };
    let (responses, _second) = futures_util::join!(send_during_a_publish(&world, first, rest), killing);
    assert_own_results(&requests, &responses);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 3);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 4);
}

/// A world without workers whose requests wait `reply_timeout` for a reply.
async fn world(reply_timeout: &str) -> World {
    stallable().workers(0).set("CONNECT_REPLY_TIMEOUT", reply_timeout).start().await
}

/// Has three requests of each of `keys` keys wait behind another one, and changes the bundle of each, by its number. Returns the
/// responses, those of the requests that traveled alone first.
async fn send_changed(
    world: &mut World, keys: usize, mut change: impl FnMut(usize, &QueuedMessage) -> QueuedMessage,
) -> Vec<HttpResponse> {
    let (mut first, mut rest) = (Vec::new(), Vec::new());
    for _ in 0..keys {
        let mut requests = identified_each(&world.add_key("events:ingest").await, 4);
        first.push(requests.remove(0));
        rest.extend(requests);
    }
    send_and_take_messages(world, &first, &rest, async |world, messages| {
        let is_bundle = |message: &QueuedMessage| request_ids(message).len() == 3;
        let (bundles, mut changed): (Vec<_>, Vec<_>) = messages.into_iter().partition(is_bundle);
        assert_eq!((bundles.len(), changed.len()), (keys, keys));
        changed.extend(bundles.iter().enumerate().map(|(number, bundle)| change(number, bundle)));
        world.queues.publish_all("events", &changed).await;
    })
    .await
}

/// Replaces a text of the same length in the second body of the bundle.
fn corrupt_second(bundle: &QueuedMessage, from: &[u8], to: &[u8]) -> QueuedMessage {
    assert_eq!(from.len(), to.len());
    let parts = bundle.meta_field("parts");
    let bytes = |part: usize, of: &str| usize::try_from(parts[part][of].as_u64().expect("a length")).expect("a length");
    let second = bytes(0, "metaBytes") + bytes(0, "bytes") + bytes(1, "metaBytes");
    let mut body = bundle.body.clone();
    let found = body[second..].windows(from.len()).position(|window| window == from).expect("the text");
    body[second + found..second + found + to.len()].copy_from_slice(to);
    bundle.with_body(&body)
}

#[tokio::test]
async fn a_bundle_with_an_unreadable_part_is_dead_lettered_after_the_others_were_applied() {
    // An invalid envelope, invalid JSON, and invalid UTF-8.
    let corruptions: [(&[u8], &[u8]); 3] =
        [(b"\"1.0\"", b"\"9.0\""), (b"{\"actor\"", b"]\"actor\""), (b"website", b"web\xff\xffte")];
    // The corrupted parts get 503 as soon as the worker replies, so nothing waits for this timeout.
    let mut world = world("60s").await;
    let mut corrupted = Vec::new();
    let responses = send_changed(&mut world, 3, |number, bundle| {
        corrupted.push(request_ids(bundle)[1].clone());
        let (from, to) = corruptions[number];
        corrupt_second(bundle, from, to)
    })
    .await;
    for response in &responses {
        if corrupted.iter().any(|id| response.header("x-request-id") == id) {
            response.assert_error(503, "processing_timeout");
        } else {
            assert_eq!(results(response)[0]["status"], "accepted");
        }
    }
    world.until_depth("events.dead", 3).await;
    let labels = [("queue", "events"), ("reason", "body")];
    world.workers[0].until_sum("connect_dead_lettered_total", &labels, 3.0).await;
    world.until_applied(9).await;
    for _ in corruptions {
        let dead = world.queues.take("events.dead").await.expect("a dead letter");
        // What an operator does once the cause is fixed.
        let place = |text: &[u8]| dead.body.windows(text.len()).position(|window| window == text);
        let found = corruptions.iter().find_map(|(from, to)| Some((place(to)?, from, to.len())));
        let (at, from, length) = found.expect("the corrupted text");
        let repaired = [&dead.body[..at], from, &dead.body[at + length..]].concat();
        world.queues.publish_message("events", &dead.with_body(&repaired)).await;
    }
    world.until_applied(12).await;
    world.workers[0].terminate().await;
    assert_eq!((world.queues.depth("events").await, world.queues.depth("events.dead").await), (0, 0));
}

#[tokio::test]
async fn dead_letters_a_whole_bundle_whose_metadata_does_not_match_its_body() {
    let too_short = |meta: &mut Value| meta["parts"][2]["bytes"] = json!(1);
    let too_long = |meta: &mut Value| meta["parts"][1]["metaBytes"] = json!(u64::MAX);
    let changes: [fn(&mut Value); 2] = [too_short, too_long];
    let mut world = world("12s").await;
    let responses = send_changed(&mut world, 2, |number, bundle| {
        let names = ["caller", "publishedAt", "prefix", "parts"];
        let mut meta = Value::from_iter(names.map(|name| (name.to_owned(), bundle.meta_field(name))));
        changes[number](&mut meta);
        bundle.clone().with_meta(&meta.to_string())
    })
    .await;
    let (alone, of_bundles) = responses.split_at(2);
    for response in alone {
        assert_eq!(results(response)[0]["status"], "accepted");
    }
    for response in of_bundles {
        response.assert_error(503, "processing_timeout");
    }
    world.until_depth("events.dead", 2).await;
    for dead in world.queues.take_all("events.dead").await {
        let text = String::from_utf8_lossy(&dead.body).into_owned();
        assert_eq!(text.matches("eventId").count(), 3, "the whole bundle");
    }
    let labels = [("queue", "events"), ("reason", "metadata")];
    world.workers[0].until_sum("connect_dead_lettered_total", &labels, 2.0).await;
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 2);
}
