//! Bundles that ingest would not publish: a part that cannot be read, parts that do not fit the body.

use super::{identified_each, request_ids, results, stallable, until_applied, with_messages};
use serde_json::{Value, json};
use tests::{Answer, Outgoing, PATIENCE, Program, QueuedMessage, World, eventually, text};

/// A world whose requests don't wait long for a reply that will not come.
async fn world(reply_timeout: &str) -> World {
    stallable().workers(0).set("CONNECT_REPLY_TIMEOUT", reply_timeout).start().await
}

async fn until_dead(world: &World, count: u32) {
    eventually("the dead letters are there", PATIENCE, async || {
        match world.queues.depth("events.dead").await {
            found if found == count => Ok(()),
            found => Err(format!("{found} of {count}")),
        }
    })
    .await;
}

/// Replaces a text of the same length in the events of the part that `request_id` names.
fn spoil(message: &QueuedMessage, request_id: &str, from: &[u8], to: &[u8]) -> (QueuedMessage, Vec<u8>) {
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

/// Sends five requests, four of which are a bundle; its second part is spoiled. Gives the answers, that part's last.
async fn with_a_spoiled_part(world: &mut World, from: &[u8], to: &[u8]) -> (Vec<Answer>, String, Vec<u8>) {
    let requests = identified_each(&world.key, 5);
    let (first, rest) = requests.split_at(1);
    let (mut spoiled, mut text) = (String::new(), Vec::new());
    let mut answers = with_messages(world, first, rest, async |world, messages| {
        let [alone, bundle] = &messages[..] else { panic!("{} messages", messages.len()) };
        spoiled = request_ids(bundle)[1].clone();
        let (bundle, spoiled_text) = spoil(bundle, &spoiled, from, to);
        text = spoiled_text;
        world.queues.put_all("events", &[alone.clone(), bundle]).await;
    })
    .await;
    let at = answers.iter().position(|answer| answer.header("x-request-id") == spoiled).expect("its answer");
    let answer = answers.remove(at);
    answers.push(answer);
    (answers, spoiled, text)
}

#[tokio::test]
async fn a_part_that_cannot_be_read_is_a_dead_letter_of_its_own_and_the_others_get_their_results() {
    // It isn't valid, isn't JSON, isn't text, can't be stored.
    let spoils: [(&[u8], &[u8]); 4] = [
        (b"\"1.0\"", b"\"9.0\""),
        (b"{\"actor\"", b"]\"actor\""),
        (b"website", b"web\xff\xffte"),
        (b"\"website\"", b"\"w\\u0000\""),
    ];
    for (from, to) in spoils {
        // Nobody waits for the end of this time.
        let mut world = world("60s").await;
        let (mut answers, spoiled, text) = with_a_spoiled_part(&mut world, from, to).await;
        let refused = answers.pop().expect("the spoiled part's answer");
        refused.assert_error(503, "processing_timeout");
        for answer in &answers {
            assert_eq!(results(answer)[0]["status"], "accepted");
        }
        until_dead(&world, 1).await;
        let dead = world.queues.take("events.dead").await.expect("a dead letter");
        assert_eq!(dead.body, [br#"{"events":["#, &text[..], b"]}"].concat());
        assert_eq!(dead.id().as_deref(), Some(spoiled.as_str()));
        assert_eq!(text_of(&dead, "requestId"), spoiled);
        assert_eq!((dead.meta_field("events"), dead.meta_field("parts")), (json!(1), Value::Null));
        assert_eq!(dead.header("traceparent").expect("a header"), text_of(&dead, "traceparent"));
        assert!(dead.is_persistent() && !dead.wants_reply());
        let signed = world.queues.sign("events", &dead);
        assert_eq!(dead.header("x-connect-mac"), signed.header("x-connect-mac"), "requeued, it is genuine");
        until_applied(&world, 4).await;
        let line = until_dead_letter_is_told(&world.workers[0]).await;
        assert_eq!((&line["reason"], &line["span"]["request_id"]), (&json!("body"), &json!(spoiled)));
        world.workers[0].terminate().await;
        assert_eq!(world.queues.depth("events").await, 0, "the bundle was acknowledged");
    }
}

/// Waits until the worker has counted one dead letter, for its body, and gives the line of the log.
async fn until_dead_letter_is_told(worker: &Program) -> Value {
    let line = eventually("the dead letter is counted and logged", PATIENCE, async || {
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
async fn a_dead_letter_that_was_a_part_can_be_requeued() {
    let mut world = world("60s").await;
    let (answers, ..) = with_a_spoiled_part(&mut world, b"\"1.0\"", b"\"9.0\"").await;
    assert_eq!(answers.len(), 5);
    until_dead(&world, 1).await;
    let dead = world.queues.take("events.dead").await.expect("a dead letter");
    let corrected = String::from_utf8(dead.body.clone()).expect("text").replace("\"9.0\"", "\"1.0\"");
    world.queues.put("events", &dead.with_body(corrected.as_bytes())).await;
    until_applied(&world, 5).await;
}

#[tokio::test]
async fn without_a_dead_letter_queue_the_bundle_comes_again_until_there_is_one() {
    let mut world = world("60s").await;
    let requests = identified_each(&world.key, 3);
    let (first, rest) = requests.split_at(1);
    let mut early = None;
    with_messages(&mut world, first, rest, async |world, messages| {
        // A worker's connections declare the queues when they are made.
        let worker = Program::worker(world.settings()).await;
        worker.until_ready().await;
        world.queues.delete("events.dead").await;
        let spoiled = request_ids(&messages[1])[0].clone();
        let (bundle, _) = spoil(&messages[1], &spoiled, b"\"1.0\"", b"\"9.0\"");
        world.queues.put_all("events", &[messages[0].clone(), bundle]).await;
        eventually("the bundle comes again", PATIENCE, async || {
            let redelivered = worker.metrics().await.sum("connect_redelivered_total", &[("queue", "events")]);
            if redelivered > 0.0 { Ok(()) } else { Err("it does not".to_owned()) }
        })
        .await;
        early = Some(worker);
    })
    .await;
    // The other worker has declared it.
    world.workers[0].until_ready().await;
    until_dead(&world, 1).await;
    until_applied(&world, 2).await;
}

/// Has a bundle delivered whose metadata was changed; it must become a dead letter as a whole.
async fn refuses_whole(change: impl Fn(&mut Value)) {
    let mut world = world("12s").await;
    let requests = identified_each(&world.key, 4);
    let (first, rest) = requests.split_at(1);
    let answers = with_messages(&mut world, first, rest, async |world, messages| {
        let bundle = &messages[1];
        let names = ["requestId", "caller", "publishedAt", "events", "traceparent", "parts"];
        let mut meta: Value = names
            .map(|name| (name.to_owned(), bundle.meta_field(name)))
            .into_iter()
            .collect::<serde_json::Map<_, _>>()
            .into();
        change(&mut meta);
        let changed = bundle.clone().with_meta(&meta.to_string());
        world.queues.put_all("events", &[messages[0].clone(), changed]).await;
    })
    .await;
    assert_eq!(results(&answers[0])[0]["status"], "accepted");
    for answer in &answers[1..] {
        answer.assert_error(503, "processing_timeout");
    }
    until_dead(&world, 1).await;
    let dead = world.queues.take("events.dead").await.expect("a dead letter");
    let text = String::from_utf8_lossy(&dead.body).into_owned();
    assert_eq!(text.matches("eventId").count(), 3, "the whole bundle");
    let dead_lettered = [("queue", "events"), ("reason", "metadata")];
    eventually("the dead letter is counted", PATIENCE, async || {
        match world.workers[0].metrics().await.sum("connect_dead_lettered_total", &dead_lettered) {
            1.0 => Ok(()),
            counted => Err(counted.to_string()),
        }
    })
    .await;
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 1);
}

#[tokio::test]
async fn parts_with_other_counts_than_the_body_dead_letter_the_whole_bundle() {
    refuses_whole(|meta| {
        meta["parts"][0]["events"] = json!(2);
        meta["events"] = json!(4);
    })
    .await;
}

#[tokio::test]
async fn parts_of_other_lengths_than_the_body_dead_letter_the_whole_bundle() {
    refuses_whole(|meta| meta["parts"][1]["bytes"] = json!(1)).await;
}

#[tokio::test]
async fn parts_that_do_not_add_up_dead_letter_the_whole_bundle() {
    refuses_whole(|meta| drop(meta["parts"].as_array_mut().expect("parts").pop())).await;
}

#[tokio::test]
async fn unlike_parts_of_the_same_total_dead_letter_the_whole_bundle() {
    let mut world = world("12s").await;
    let person = |i: usize| tests::event("contact.identified").email(&format!("{i}@example.com"));
    let request = |events: &[tests::Event]| world.key.events(tests::event::batch(events));
    let first = [request(&[person(0)])];
    let rest: [Outgoing; 2] = [request(&[person(1), person(2)]), request(&[person(3)])];
    let answers = with_messages(&mut world, &first, &rest, async |world, messages| {
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
        world.queues.put_all("events", &[messages[0].clone(), swapped]).await;
    })
    .await;
    assert_eq!(results(&answers[0]).len(), 1);
    for answer in &answers[1..] {
        answer.assert_error(503, "processing_timeout");
    }
    until_dead(&world, 1).await;
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 1);
}
