//! Programs of the previous release beside those of this one. That release has neither parts nor MACs; its formats are copied here.

use super::{
    assert_own_results, enquiry_submitted, events_of, request_ids, results, send_and_take_messages, stallable,
};
use common::caller::Caller;
use common::event::{BatchResult, parse_batch};
use serde::Deserialize;
use serde_json::{Value, json};
use tests::event::batch;
use tests::{HttpRequest, Program, QueuedMessage, World, text};
use uuid::Uuid;

/// The metadata of a batch as the previous release reads it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreviousBatchMeta {
    request_id: Uuid,
    caller: Caller,
    published_at: chrono::DateTime<chrono::Utc>,
    events: u16,
    #[serde(default)]
    traceparent: Option<String>,
}

/// The metadata of a message, parsed as by the previous release.
fn previous_meta(message: &QueuedMessage) -> PreviousBatchMeta {
    let meta = message.header("x-connect-meta").expect("metadata");
    serde_json::from_str(&meta).expect("the previous release reads it")
}

/// The message as the previous release's ingest would have published it.
fn without_parts(message: &QueuedMessage) -> QueuedMessage {
    let PreviousBatchMeta { request_id, caller, published_at, events, traceparent } = previous_meta(message);
    let meta = json!({"requestId": request_id, "caller": caller, "publishedAt": published_at, "events": events, "traceparent": traceparent});
    message.clone().with_meta(&meta.to_string()).without_mac()
}

/// A world during an upgrade.
async fn upgrading() -> World {
    stallable().workers(0).set("CONNECT_ACCEPT_UNSIGNED_MESSAGES", "true").start().await
}

/// Replies as a worker of the previous release does: every event is accepted.
async fn previous_worker_replies(world: &World, message: &QueuedMessage) {
    let meta = previous_meta(message);
    let envelopes = parse_batch(&message.body, &meta.caller.tenant).expect("a valid batch");
    assert_eq!(envelopes.len(), usize::from(meta.events));
    assert_eq!(message.correlation_id(), Some(meta.request_id.to_string().as_str()));
    let result = |id: &str| json!({"eventId": id, "status": "accepted", "clientId": Uuid::now_v7()});
    let results: Vec<Value> = envelopes.iter().map(|envelope| result(&envelope.event_id)).collect();
    let reply = json!({"accepted": results.len(), "duplicate": 0, "failed": 0, "results": results});
    world.queues.reply(message, reply.to_string().as_bytes()).await;
}

fn requests(world: &World, count: usize) -> Vec<HttpRequest> {
    let one = |i: usize| enquiry_submitted(&format!("{i}@example.com"));
    (0..count).map(|i| world.key.events(batch(&[one(i)]))).collect()
}

#[tokio::test]
async fn a_previous_release_worker_reads_a_bundle_as_a_batch_and_its_reply_is_split() {
    let mut world = upgrading().await;
    let requests = requests(&world, 4);
    let (first, rest) = requests.split_at(1);
    let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
        assert_eq!(request_ids(&messages[1]).len(), 3);
        for message in &messages {
            previous_worker_replies(world, message).await;
        }
    })
    .await;
    assert_own_results(&requests, &responses);
}

#[tokio::test]
async fn a_batch_of_the_previous_release_gets_an_unchanged_reply() {
    let mut world = upgrading().await;
    let requests = requests(&world, 1);
    send_and_take_messages(&mut world, &requests, &[], async |world, messages| {
        let two = [enquiry_submitted("bo@example.com"), enquiry_submitted("bo@example.com")];
        let body = batch(&two);
        let meta = previous_meta(&messages[0]);
        let meta = json!({"requestId": Uuid::now_v7(), "caller": meta.caller, "publishedAt": meta.published_at, "events": 2});
        let message = QueuedMessage::new(&body).with_meta(&meta.to_string()).without_mac();
        let worker = Program::worker(world.settings()).await;
        let reply = world.queues.call("events", &message).await;
        let result: BatchResult = serde_json::from_slice(&reply.body).expect("a result");
        assert_eq!((result.accepted, result.results.len()), (2, 2));
        assert!(!String::from_utf8_lossy(&reply.body).contains("rejectedParts"));
        drop(worker);
        world.queues.publish_all("events", &messages).await;
    })
    .await;
}

/// Delivers a bundle in the form of one release and redelivers it in the form of the other.
async fn assert_same_results_from_both_releases(
    first_delivery: fn(&QueuedMessage) -> QueuedMessage,
    second: fn(&QueuedMessage) -> QueuedMessage,
) {
    let mut world = upgrading().await;
    let requests = requests(&world, 4);
    let (first, rest) = requests.split_at(1);
    let mut early = None;
    let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
        let lost = first_delivery(&messages[1]).without_reply();
        world.queues.publish_all("events", &[messages[0].clone(), lost]).await;
        early = Some(Program::worker(world.settings()).await);
        world.until_applied(4).await;
        world.queues.publish_message("events", &second(&messages[1])).await;
    })
    .await;
    assert_own_results(&requests, &responses);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 4);
    for (request, response) in requests.iter().zip(&responses) {
        let id = text(&events_of(request)[0]["eventId"]).to_owned();
        let stored = "SELECT lead_id FROM event_ledger WHERE event_id = $1";
        assert_eq!(world.database.rows(stored, &[&id]).await[0]["lead_id"], results(response)[0]["leadId"]);
    }
}

#[tokio::test]
async fn a_bundle_applied_by_the_previous_release_gets_the_same_results_from_this_one() {
    assert_same_results_from_both_releases(without_parts, Clone::clone).await;
}

#[tokio::test]
async fn a_bundle_applied_by_this_release_gets_the_same_results_from_the_previous_one() {
    assert_same_results_from_both_releases(Clone::clone, without_parts).await;
}
