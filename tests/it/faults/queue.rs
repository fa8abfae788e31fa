//! A queue without a worker, and a full queue (D9).

use super::fill_queue;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::HashSet;
use tests::{Event, HttpClient, HttpRequest, QueuedMessage, World, batch, event};

/// A world without workers whose ingest doesn't wait for one.
async fn without_workers(queue_length: &str) -> World {
    let world = World::with().workers(0).set("CONNECT_QUEUE_MAX_LENGTH", queue_length);
    world.set("CONNECT_REPLY_TIMEOUT", "300ms").start().await
}

/// Starts a worker, and an ingest that waits for it.
async fn start_worker_and_patient_ingest(world: &mut World) {
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.add_worker().await;
    world.restart_ingest().await;
}

#[tokio::test]
async fn a_batch_and_its_retries_that_timed_out_without_a_worker_are_applied_once_later() {
    let mut world = without_workers("100").await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    for sent in 1..=3 {
        let response = world.send(std::slice::from_ref(&enquiry)).await;
        response.assert_error(503, "processing_timeout");
        assert!(!response.header("retry-after").is_empty(), "{response:?}");
        assert_eq!(world.queues.depth("events").await, sent, "it is kept");
    }
    start_worker_and_patient_ingest(&mut world).await;
    world.until_depth("events", 0).await;
    // The queue is empty once all messages are delivered, before they are applied.
    world.until_applied(1).await;
    let again = world.result(enquiry).await;
    let [lead] = &world.pipeline(&[]).await[..] else { panic!("one lead") };
    assert_eq!((&again["status"], &again["leadId"]), (&json!("duplicate"), &lead["id"]));
    assert_eq!((&again["clientId"], &again["tripId"]), (&lead["clientId"], &lead["tripId"]));
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 1);
}

#[tokio::test]
async fn a_full_queue_rejects_batches_that_are_not_ingested() {
    let mut world = without_workers("5").await;
    let [kept, refused] = fill_queue(async |_| {
        let contact = event("contact.identified").email("ana@example.com");
        let response = world.send(std::slice::from_ref(&contact)).await;
        (contact, response)
    })
    .await;
    for (_, response) in &refused {
        response.assert_error(503, "overloaded");
        assert!(!response.header("retry-after").is_empty(), "{response:?}");
    }
    start_worker_and_patient_ingest(&mut world).await;
    world.until_applied(kept.len() as i64).await;
    for (contact, _) in refused {
        world.accept(contact).await;
    }
    for (contact, _) in kept {
        let response = world.http().send(&world.key.events(batch(&[contact]))).await;
        assert_eq!(response.json()["duplicate"], 1);
    }
}

#[tokio::test]
async fn a_program_with_another_queue_length_uses_the_existing_queue() {
    let mut world = World::with().set("CONNECT_QUEUE_MAX_LENGTH", "1000").start().await;
    world.restart_ingest_with("CONNECT_QUEUE_MAX_LENGTH", "2000").await;
    world.end_workers().await;
    world.add_worker().await;
    world.workers[0].until_ready().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
}

#[tokio::test]
async fn of_batches_that_arrive_at_once_at_a_full_queue_those_told_so_are_not_in_it() {
    let world = without_workers("20").await;
    let http = HttpClient::new(world.http().address());
    // The library takes longer to queue a large message, and small ones can pass it.
    let text = "x".repeat(400 * 1024);
    let request = |number: usize| {
        let text = if number.is_multiple_of(4) { text.as_str() } else { "" };
        let one = |_| event("contact.identified").email("ana@example.com");
        let mut events: [Event; 11] = std::array::from_fn(one);
        events[0] = one(0).payload(json!({ "text": text }));
        world.key.events(batch(&events))
    };
    for _ in 0..20 {
        let requests: Vec<HttpRequest> = (0..48).map(request).collect();
        let responses = join_all(requests.iter().map(|request| http.send(request))).await;
        let queued: HashSet<String> =
            world.queues.take_all("events").await.iter().filter_map(QueuedMessage::id).collect();
        for response in responses {
            let id = response.header("x-request-id").to_owned();
            let code = response.json()["code"].clone();
            assert_eq!(queued.contains(&id), code == "processing_timeout", "{code} {id}");
        }
    }
}
