//! The `traceparent` header of AMQP messages.

use super::{SENT, TRACE, enquiry_submitted, request, request_id, trace_of, verbose};
use tests::{Behavior, MAX_WAIT, QueuedMessage, Receiver, World, eventually, text};

async fn waiting(world: &World, queue: &str) -> QueuedMessage {
    eventually(&format!("a message in {queue}"), MAX_WAIT, async || {
        world.queues.take(queue).await.ok_or_else(|| "none".to_owned())
    })
    .await
}

#[tokio::test]
async fn a_batch_message_has_a_traceparent_header() {
    let world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let response = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    assert_eq!(response.status, 503, "{response:?}");
    let message = waiting(&world, "events").await;
    let header = message.header("traceparent").expect("a header");
    assert_eq!(trace_of(&header), TRACE);
    assert_ne!(header, SENT, "the parent of what follows is ingest's span");
    assert_eq!(message.meta_field("traceparent"), *header);
    assert_eq!(text(&message.meta_field("requestId")), request_id(&response).to_string());
}

#[tokio::test]
async fn a_dead_lettered_delivery_has_a_traceparent_header() {
    let world = verbose().set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500));
    world.subscribe(&receiver.url("/hooks")).await;
    world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    receiver.wait_for(1).await;
    let message = waiting(&world, "webhooks.dead").await;
    assert_eq!(trace_of(&message.header("traceparent").expect("a header")), TRACE);
}
