//! Bundles that ingest would not publish: an unreadable part, or parts that do not match the body.

use super::{identified_each, request_ids, results, send_and_take_messages, stallable};
use serde_json::{Value, json};
use tests::{HttpResponse, QueuedMessage, World};

/// A world without workers whose requests wait `reply_timeout` for a reply.
async fn world(reply_timeout: &str) -> World {
    stallable().workers(0).set("CONNECT_REPLY_TIMEOUT", reply_timeout).start().await
}

/// Has three requests of each of `keys` keys wait behind another one, and changes the bundle of each, by its number. Returns the
/// responses, those of the requests that traveled alone first.
async fn send_changed(
    world: &mut World,
    keys: usize,
    mut change: impl FnMut(usize, &QueuedMessage) -> QueuedMessage,
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
    // The corrupted parts get 503 as soon as the worker replies, so nothing waits for this timeout.
    let mut world = world("60s").await;
    let mut corrupted = Vec::new();
    let responses = send_changed(&mut world, 4, |number, bundle| {
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
    world.until_depth("events.dead", 4).await;
    let labels = [("queue", "events"), ("reason", "body")];
    world.workers[0].until_sum("connect_dead_lettered_total", &labels, 4.0).await;
    world.until_applied(12).await;
    for _ in corruptions {
        let dead = world.queues.take("events.dead").await.expect("a dead letter");
        // What an operator does once the cause is fixed.
        let place = |text: &[u8]| dead.body.windows(text.len()).position(|window| window == text);
        let found = corruptions.iter().find_map(|(from, to)| Some((place(to)?, from, to.len())));
        let (at, from, length) = found.expect("the corrupted text");
        let repaired = [&dead.body[..at], from, &dead.body[at + length..]].concat();
        world.queues.publish_message("events", &dead.with_body(&repaired)).await;
    }
    world.until_applied(16).await;
    world.workers[0].terminate().await;
    assert_eq!((world.queues.depth("events").await, world.queues.depth("events.dead").await), (0, 0));
}

#[tokio::test]
async fn dead_letters_a_whole_bundle_whose_metadata_does_not_match_its_body() {
    let wrong_counts = |meta: &mut Value| (meta["parts"][0]["events"], meta["events"]) = (json!(2), json!(4));
    let wrong_length = |meta: &mut Value| meta["parts"][1]["bytes"] = json!(1);
    let changes: [fn(&mut Value); 2] = [wrong_counts, wrong_length];
    let mut world = world("12s").await;
    let responses = send_changed(&mut world, 2, |number, bundle| {
        let names = ["requestId", "caller", "publishedAt", "events", "traceparent", "parts"];
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
