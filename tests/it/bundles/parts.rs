//! Bundles that ingest would not publish: an unreadable part, or parts that do not match the body.

use super::{identified_each, request_ids, results, send_and_take_messages, stallable};
use serde_json::{Value, json};
use tests::{HttpRequest, HttpResponse, MAX_WAIT, Program, QueuedMessage, World, eventually, text};

/// A world without workers whose requests wait `reply_timeout` for a reply.
async fn world(reply_timeout: &str) -> World {
    stallable().workers(0).set("CONNECT_REPLY_TIMEOUT", reply_timeout).start().await
}

/// Replaces a text of the same length in the events of the part that `request_id` names.
fn corrupt(message: &QueuedMessage, request_id: &str, from: &[u8], to: &[u8]) -> (QueuedMessage, Vec<u8>) {
    assert_eq!(from.len(), to.len());
    let parts = message.meta_field("parts");
    let mut at = br#"{"events":["#.len();
    for part in parts.as_array().expect("parts") {
        let bytes: usize = part["bytes"].as_u64().expect("a length").try_into().expect("a length");
        if part["requestId"] == request_id {
            let mut body = message.body.clone();
            let text = &body[at..at + bytes];
            let found = text.windows(from.len()).position(|window| window == from).expect("the text");
            body[at + found..at + found + to.len()].copy_from_slice(to);
            let text = body[at..at + bytes].to_vec();
            return (message.with_body(&body), text);
        }
        at += bytes + 1;
    }
    panic!("no part {request_id} in {parts}");
}

/// Sends five requests, four of which form a bundle, and corrupts its second part. Returns the responses, with that part's last.
async fn send_with_a_corrupted_part(
    world: &mut World,
    from: &[u8],
    to: &[u8],
) -> (Vec<HttpResponse>, String, Vec<u8>) {
    let requests = identified_each(&world.key, 5);
    let (first, rest) = requests.split_at(1);
    let (mut corrupted, mut text) = (String::new(), Vec::new());
    let mut responses = send_and_take_messages(world, first, rest, async |world, messages| {
        let [alone, bundle] = &messages[..] else { panic!("{} messages", messages.len()) };
        corrupted = request_ids(bundle)[1].clone();
        let (bundle, corrupted_text) = corrupt(bundle, &corrupted, from, to);
        text = corrupted_text;
        world.queues.publish_all("events", &[alone.clone(), bundle]).await;
    })
    .await;
    let at = responses
        .iter()
        .position(|response| response.header("x-request-id") == corrupted)
        .expect("its response");
    let response = responses.remove(at);
    responses.push(response);
    (responses, corrupted, text)
}

#[tokio::test]
async fn dead_letters_an_unreadable_part_and_applies_the_others() {
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
        let (mut responses, corrupted, text) = send_with_a_corrupted_part(&mut world, from, to).await;
        let refused = responses.pop().expect("the corrupted part's response");
        refused.assert_error(503, "processing_timeout");
        for response in &responses {
            assert_eq!(results(response)[0]["status"], "accepted");
        }
        world.until_depth("events.dead", 1).await;
        let dead = world.queues.take("events.dead").await.expect("a dead letter");
        assert_eq!(dead.body, [br#"{"events":["#, &text[..], b"]}"].concat());
        assert_eq!(dead.id().as_deref(), Some(corrupted.as_str()));
        assert_eq!(text_of(&dead, "requestId"), corrupted);
        assert_eq!((dead.meta_field("events"), dead.meta_field("parts")), (json!(1), Value::Null));
        assert_eq!(dead.header("traceparent").expect("a header"), text_of(&dead, "traceparent"));
        assert!(dead.is_persistent() && !dead.wants_reply());
        let signed = world.queues.sign("events", &dead);
        assert_eq!(
            dead.header("x-connect-mac"),
            signed.header("x-connect-mac"),
            "its MAC is valid for requeueing"
        );
        world.until_applied(4).await;
        let line = until_dead_letter_is_logged(&world.workers[0]).await;
        assert_eq!((&line["reason"], &line["span"]["request_id"]), (&json!("body"), &json!(corrupted)));
        world.workers[0].terminate().await;
        assert_eq!(world.queues.depth("events").await, 0, "the bundle was acknowledged");
    }
}

/// Waits until the worker has counted one dead letter, for its body, and gives the line of the log.
async fn until_dead_letter_is_logged(worker: &Program) -> Value {
    let line = eventually("the dead letter is counted and logged", MAX_WAIT, async || {
        let metrics = worker.metrics().await;
        let reason = |reason| metrics.sum("connect_dead_lettered_total", &[("reason", reason)]);
        assert_eq!(reason("metadata"), 0.0);
        let logs = worker.logs();
        let line = logs.lines().find(|line| line.contains("message dead-lettered"));
        match (reason("body"), line) {
            (1.0, Some(line)) => Ok(line.to_owned()),
            told => Err(format!("{told:?}")),
        }
    });
    serde_json::from_str(&line.await).expect("JSON")
}

fn text_of(message: &QueuedMessage, field: &str) -> String {
    text(&message.meta_field(field)).to_owned()
}

#[tokio::test]
async fn a_dead_lettered_part_can_be_requeued() {
    let mut world = world("60s").await;
    let (responses, ..) = send_with_a_corrupted_part(&mut world, b"\"1.0\"", b"\"9.0\"").await;
    assert_eq!(responses.len(), 5);
    world.until_depth("events.dead", 1).await;
    let dead = world.queues.take("events.dead").await.expect("a dead letter");
    let corrected = String::from_utf8(dead.body.clone()).expect("text").replace("\"9.0\"", "\"1.0\"");
    world.queues.publish_message("events", &dead.with_body(corrected.as_bytes())).await;
    world.until_applied(5).await;
}

#[tokio::test]
async fn without_a_dead_letter_queue_the_bundle_is_redelivered_until_it_exists() {
    let mut world = world("60s").await;
    let requests = identified_each(&world.key, 3);
    let (first, rest) = requests.split_at(1);
    let mut early = None;
    send_and_take_messages(&mut world, first, rest, async |world, messages| {
        // A worker's connections declare the queues when they are made.
        let worker = Program::worker(world.settings()).await;
        worker.until_ready().await;
        world.queues.delete("events.dead").await;
        let corrupted = request_ids(&messages[1])[0].clone();
        let (bundle, _) = corrupt(&messages[1], &corrupted, b"\"1.0\"", b"\"9.0\"");
        world.queues.publish_all("events", &[messages[0].clone(), bundle]).await;
        eventually("the bundle comes again", MAX_WAIT, async || {
            let redelivered = worker.metrics().await.sum("connect_redelivered_total", &[("queue", "events")]);
            if redelivered > 0.0 { Ok(()) } else { Err("it does not".to_owned()) }
        })
        .await;
        early = Some(worker);
    })
    .await;
    // The other worker has declared the queue again.
    world.workers[0].until_ready().await;
    world.until_depth("events.dead", 1).await;
    world.until_applied(2).await;
}

/// Delivers a bundle with changed metadata, and checks that it is dead-lettered as a whole.
async fn assert_whole_bundle_dead_lettered(change: impl Fn(&mut Value)) {
    let mut world = world("12s").await;
    let requests = identified_each(&world.key, 4);
    let (first, rest) = requests.split_at(1);
    let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
        let bundle = &messages[1];
        let names = ["requestId", "caller", "publishedAt", "events", "traceparent", "parts"];
        let mut meta: Value = names
            .map(|name| (name.to_owned(), bundle.meta_field(name)))
            .into_iter()
            .collect::<serde_json::Map<_, _>>()
            .into();
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
    let dead_lettered = [("queue", "events"), ("reason", "metadata")];
    eventually("the dead letter is counted", MAX_WAIT, async || {
        match world.workers[0].metrics().await.sum("connect_dead_lettered_total", &dead_lettered) {
            1.0 => Ok(()),
            counted => Err(counted.to_string()),
        }
    })
    .await;
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 1);
}

#[tokio::test]
async fn dead_letters_a_bundle_whose_event_counts_do_not_match_its_body() {
    assert_whole_bundle_dead_lettered(|meta| {
        meta["parts"][0]["events"] = json!(2);
        meta["events"] = json!(4);
    })
    .await;
}

#[tokio::test]
async fn dead_letters_a_bundle_whose_part_lengths_do_not_match_its_body() {
    assert_whole_bundle_dead_lettered(|meta| meta["parts"][1]["bytes"] = json!(1)).await;
}

#[tokio::test]
async fn dead_letters_a_bundle_with_a_part_missing_from_its_metadata() {
    assert_whole_bundle_dead_lettered(|meta| drop(meta["parts"].as_array_mut().expect("parts").pop())).await;
}

#[tokio::test]
async fn dead_letters_a_bundle_with_swapped_event_counts_of_the_same_total() {
    let mut world = world("12s").await;
    let person = |i: usize| tests::event("contact.identified").email(&format!("{i}@example.com"));
    let request = |events: &[tests::Event]| world.key.events(tests::event::batch(events));
    let first = [request(&[person(0)])];
    let rest: [HttpRequest; 2] = [request(&[person(1), person(2)]), request(&[person(3)])];
    let responses = send_and_take_messages(&mut world, &first, &rest, async |world, messages| {
        let bundle = &messages[1];
        let parts = bundle.meta_field("parts");
        let swapped = parts.as_array().expect("parts").iter().map(|part| {
            let mut part = part.clone();
            part["events"] = json!(3 - part["events"].as_u64().expect("a count"));
            part
        });
        let meta = json!({
            "requestId": bundle.meta_field("requestId"), "caller": bundle.meta_field("caller"), "events": 3,
            "publishedAt": bundle.meta_field("publishedAt"), "parts": swapped.collect::<Vec<_>>(),
        });
        let swapped = bundle.clone().with_meta(&meta.to_string());
        world.queues.publish_all("events", &[messages[0].clone(), swapped]).await;
    })
    .await;
    assert_eq!(results(&responses[0]).len(), 1);
    for response in &responses[1..] {
        response.assert_error(503, "processing_timeout");
    }
    world.until_depth("events.dead", 1).await;
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 1);
}
