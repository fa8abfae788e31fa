//! Spans of the worker: what failed inside is exported as failed, what its caller did wrong isn't.

use super::collector::{Collector, Span};
use super::{SENT, TRACE, enquiry, lines, outspoken, request, request_id};
use crate::records::{at, break_inserts, mend, post_of};
use serde_json::{Value, json};
use tests::{Answer, QueuedMessage, World, event};
use uuid::Uuid;

/// The span of that request.
async fn of(collector: &Collector, name: &str, request_id: &str) -> Span {
    collector.span(name, |span| span.attribute("connect.request_id") == Some(request_id)).await
}

async fn of_answer(collector: &Collector, name: &str, answer: &Answer) -> Span {
    of(collector, name, &request_id(answer).to_string()).await
}

async fn open_lead(world: &World) -> Answer {
    let body = json!({"contact": {"email": "ana@example.com", "name": "Ana"}});
    let request = post_of(&world.key, "/leads", &Uuid::now_v7().to_string(), &body);
    world.http().send(&request.with("traceparent", SENT)).await
}

/// Publishes an advisor's action for nobody who waits, and gives its id.
async fn act(world: &World, lead: &Value) -> String {
    let action =
        json!({"action": "stage", "tenant": "acme", "lead": lead, "stage": "lost", "reason": "too dear"});
    let id = Uuid::now_v7().to_string();
    let message = QueuedMessage::new(action.to_string().as_bytes()).with_header("traceparent", SENT);
    world.queues.put("crm", &message.with_id(&id)).await;
    id
}

#[tokio::test]
async fn what_fails_inside_is_a_span_that_failed() {
    let collector = Collector::start();
    let world = collector.of(World::with()).start().await;
    let lead = world.accept(enquiry()).await["leadId"].clone();
    break_inserts(&world, "event_ledger").await;
    let batch = world.http().send(&request(&world, enquiry()).with("traceparent", SENT)).await;
    assert_eq!(batch.json()["results"][0]["error"], "internal_error", "{batch:?}");
    let write = open_lead(&world).await;
    write.assert_error(500, "lead_create_failed");
    let action = act(&world, &lead).await;

    for span in [
        of_answer(&collector, "batch", &batch).await,
        of_answer(&collector, "write", &write).await,
        of(&collector, "action", &action).await,
    ] {
        assert!(span.is_failed(), "{span:?}");
        assert_eq!((span.service.as_str(), span.field("traceId")), ("connect-worker", TRACE));
    }
}

#[tokio::test]
async fn what_is_done_or_refused_is_a_span_that_did_not_fail() {
    let collector = Collector::start();
    let world = collector.of(World::with()).start().await;
    break_inserts(&world, "event_ledger").await;
    mend(&world).await;
    let unknown = event("contact.updated").email("nobody@example.com").name("Nobody");
    let batch = world.http().send(&request(&world, unknown)).await;
    assert_eq!(batch.json()["results"][0]["error"], "contact_not_found", "{batch:?}");
    let write = open_lead(&world).await;
    assert_eq!(write.status, 201, "{write:?}");
    let nobody = world.key.records("PATCH", &at(&format!("/leads/{}", Uuid::now_v7())), "{\"title\":\"x\"}");
    let refused = world.http().send(&nobody).await;
    refused.assert_error(404, "not_found");
    let action = act(&world, &write.json()["data"]["id"]).await;
    let unknown = act(&world, &json!(Uuid::now_v7())).await;

    let write_span = of_answer(&collector, "write", &write).await;
    let request_span = of_answer(&collector, "request", &write).await;
    assert_eq!((write_span.field("traceId"), request_span.field("traceId")), (TRACE, TRACE));
    assert_eq!(write_span.field("parentSpanId"), request_span.field("spanId"));
    let action_span = of(&collector, "action", &action).await;
    assert_eq!(action_span.field("parentSpanId"), "b7ad6b7169203331");
    for span in [
        of_answer(&collector, "batch", &batch).await,
        write_span,
        of_answer(&collector, "write", &refused).await,
        action_span,
        of(&collector, "action", &unknown).await,
    ] {
        assert!(!span.is_failed(), "{span:?}");
        assert_eq!(span.json["kind"], 5, "a consumer: {span:?}");
    }
}

#[tokio::test]
async fn an_action_that_the_workers_end_interrupts_is_a_span_that_failed() {
    let collector = Collector::start();
    let mut world = collector.of(outspoken()).dispatchers(0).through_proxies().start().await;
    world.workers[0].until_ready().await;
    world.proxies().postgres.cut();
    let action = act(&world, &json!(Uuid::now_v7())).await;
    lines(&world.workers[0], "database unavailable; trying the advisor action again").await;
    assert!(world.workers[0].terminate().await.success());
    let span = of(&collector, "action", &action).await;
    assert!(span.is_failed(), "{span:?}");
}

#[tokio::test]
async fn a_write_whose_time_was_up_is_a_span_that_failed() {
    let collector = Collector::start();
    let mut world =
        collector.of(World::with()).workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let write = open_lead(&world).await;
    write.assert_error(503, "processing_timeout");
    world.add_worker().await;
    let span = of_answer(&collector, "write", &write).await;
    assert!(span.is_failed(), "{span:?}");
}
