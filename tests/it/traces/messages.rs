//! The header of AMQP.

use super::{SENT, TRACE, enquiry, outspoken, request, request_id, subscribe, trace_of};
use tests::{Behaviour, PATIENCE, QueuedMessage, Receiver, World, eventually, text};

async fn waiting(world: &World, queue: &str) -> QueuedMessage {
    eventually(&format!("a message in {queue}"), PATIENCE, async || {
        world.queues.take(queue).await.ok_or_else(|| "none".to_owned())
    })
    .await
}

#[tokio::test]
async fn a_batch_carries_the_traceparent_as_a_header_of_its_own() {
    let world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let answer = world.http().send(&request(&world, enquiry()).with("traceparent", SENT)).await;
    assert_eq!(answer.status, 503, "{answer:?}");
    let message = waiting(&world, "events").await;
    let header = message.header("traceparent").expect("a header");
    assert_eq!(trace_of(&header), TRACE);
    assert_ne!(header, SENT, "the parent of what follows is ingest's span");
    assert_eq!(message.meta_field("traceparent"), *header);
    assert_eq!(text(&message.meta_field("requestId")), request_id(&answer).to_string());
}

#[tokio::test]
async fn a_delivery_carries_it_to_the_dead_letters() {
    let world = outspoken().set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    let receiver = Receiver::http();
    receiver.answer_all(Behaviour::status(500));
    subscribe(&world, &receiver.url("/hooks")).await;
    world.http().send(&request(&world, enquiry()).with("traceparent", SENT)).await;
    receiver.wait_for(1).await;
    let message = waiting(&world, "webhooks.dead").await;
    assert_eq!(trace_of(&message.header("traceparent").expect("a header")), TRACE);
}

#[tokio::test]
async fn a_message_of_the_release_before_is_applied_and_begins_a_trace() {
    let world = outspoken().workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver.url("/hooks")).await;
    world.http().send(&request(&world, enquiry())).await;
    let new = waiting(&world, "events").await;
    let caller = new.meta_field("caller");
    let (id, at) = (new.meta_field("requestId"), new.meta_field("publishedAt"));
    let meta = serde_json::json!({"requestId": id, "caller": caller, "publishedAt": at, "events": 1});
    world.queues.put("events", &QueuedMessage::new(&new.body).with_meta(&meta.to_string())).await;
    let mut world = world;
    world.add_worker().await;
    trace_of(receiver.wait_for(1).await[0].header("traceparent"));
}
