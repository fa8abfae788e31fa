//! Bundles that ingest would not publish: an unreadable part, or parts that do not match the body.

use super::{identified_each, request_ids, results, send_and_take_messages, stallable};
use serde_json::{Value, json};
use tests::{QueuedMessage, World, until_equal};

/// A world without workers whose requests wait `reply_timeout` for a reply.
async fn world(reply_timeout: &str) -> World {
    stallable().workers(0).set("CONNECT_REPLY_TIMEOUT", reply_timeout).start().await
}

/// Replaces a text of the same length in the events of the bundle's second part.
fn corrupt_second(bundle: &QueuedMessage, from: &[u8], to: &[u8]) -> QueuedMessage {
    assert_eq!(from.len(), to.len());
    let first = bundle.meta_field("parts")[0]["bytes"].as_u64().expect("a length");
    let second = br#"{"events":["#.len() + usize::try_from(first).expect("a length") + 1;
    let mut body = bundle.body.clone();
    let found = body[second..].windows(from.len()).position(|window| window == from).expect("the text");
    body[second + found..second + found + to.len()].copy_from_slice(to);
    bundle.with_body(&body)
}

#[tokio::test]
async fn a_bundle_with_an_unreadable_part_is_dead_lettered_after_the_others_were_applied() {
    // An invalid envelope, invalid JSON, invalid UTF-8, and text that cannot be stored.
    let corruptions: [(&[u8], &[u8]); 4] = [
        (b"\"1.0\"", b"\"9.0\""),
        (b"{\"actor\"", b"]\"actor\""),
        (b"website", b"web\xff\xffte"),
        (b"\"website\"", b"\"w\\u0000\""),
    ];
    for (from, to) in corruptions {
        // The corrupted part gets 503 as soon as the worker replies, so nothing waits for this timeout.
        let mut world = world("60s").await;
        let requests = identified_each(&world.key, 5);
        let (first, rest) = requests.split_at(1);
        let mut corrupted = String::new();
        let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
            let [alone, bundle] = &messages[..] else { panic!("{} messages", messages.len()) };
            corrupted = request_ids(bundle)[1].clone();
            world.queues.publish_all("events", &[alone.clone(), corrupt_second(bundle, from, to)]).await;
        })
        .await;
        for response in &responses {
            if response.header("x-request-id") == corrupted {
                response.assert_error(503, "processing_timeout");
            } else {
                assert_eq!(results(response)[0]["status"], "accepted");
            }
        }
        world.until_depth("events.dead", 1).await;
        until_counted_once(&world, "body").await;
        world.until_applied(4).await;
        let dead = world.queues.take("events.dead").await.expect("a dead letter");
        // What an operator does once the cause is fixed.
        let at = dead.body.windows(to.len()).position(|window| window == to).expect("the corrupted text");
        let repaired = [&dead.body[..at], from, &dead.body[at + to.len()..]].concat();
        world.queues.publish_message("events", &dead.with_body(&repaired)).await;
        world.until_applied(5).await;
        world.workers[0].terminate().await;
        assert_eq!((world.queues.depth("events").await, world.queues.depth("events.dead").await), (0, 0));
    }
}

/// Waits until the worker has counted one dead letter, with this reason.
async fn until_counted_once(world: &World, reason: &str) {
    let labels = [("queue", "events"), ("reason", reason)];
    until_equal("the dead letter is counted", 1.0, async || {
        world.workers[0].metrics().await.sum("connect_dead_lettered_total", &labels)
    })
    .await;
}

#[tokio::test]
async fn dead_letters_a_whole_bundle_whose_metadata_does_not_match_its_body() {
    let wrong_counts = |meta: &mut Value| (meta["parts"][0]["events"], meta["events"]) = (json!(2), json!(4));
    let wrong_length = |meta: &mut Value| meta["parts"][1]["bytes"] = json!(1);
    let changes: [fn(&mut Value); 2] = [wrong_counts, wrong_length];
    for change in changes {
        let mut world = world("12s").await;
        let requests = identified_each(&world.key, 4);
        let (first, rest) = requests.split_at(1);
        let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
            let bundle = &messages[1];
            let names = ["requestId", "caller", "publishedAt", "events", "traceparent", "parts"];
            let fields = names.map(|name| (name.to_owned(), bundle.meta_field(name)));
            let mut meta = Value::from_iter(fields);
            change(&mut meta);
            let changed = bundle.clone().with_meta(&meta.to_string());
            world.queues.publish_all("events", &[messages[0].clone(), changed]).await;
        })
        .await;
        assert_eq!(results(&responses[0])[0]["status"], "accepted");
        for response in &responses[1..] {
            response.assert_error(503, "processing_timeout");
        }
        world.until_depth("events.dead", 1).await;
        let dead = world.queues.take("events.dead").await.expect("a dead letter");
        let text = String::from_utf8_lossy(&dead.body).into_owned();
        assert_eq!(text.matches("eventId").count(), 3, "the whole bundle");
        until_counted_once(&world, "metadata").await;
        assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 1);
    }
}
