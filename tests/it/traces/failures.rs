//! Spans of the worker: internal errors are exported as failed, errors of the caller are not.

use super::collector::{Collector, Span};
use super::{SENT, TRACE, enquiry_submitted, lines, request, request_id, verbose};
use crate::records::{break_inserts, post_request, records_target, restore_inserts};
use serde_json::{Value, json};
use tests::{HttpResponse, QueuedMessage, World, event};
use uuid::Uuid;

/// The span with that request id.
async fn span_of(collector: &Collector, name: &str, request_id: &str) -> Span {
    collector.span(name, |span| span.attribute("connect.request_id") == Some(request_id)).await
}

async fn span_of_response(collector: &Collector, name: &str, response: &HttpResponse) -> Span {
    span_of(collector, name, &request_id(response).to_string()).await
}

async fn open_lead(world: &World) -> HttpResponse {
    let body = json!({"contact": {"email": "ana@example.com", "name": "Ana"}});
    let request = post_request(&world.key, "/leads", &Uuid::now_v7().to_string(), &body);
    world.http().send(&request.with("traceparent", SENT)).await
}

/// Publishes an advisor action without a reply queue, and returns its id.
pub(super) async fn act(world: &World, lead: &Value) -> String {
    let action =
        json!({"action": "stage", "tenant": "acme", "lead": lead, "stage": "lost", "reason": "too dear"});
    let id = Uuid::now_v7().to_string();
    let message = QueuedMessage::new(action.to_string().as_bytes()).with_header("traceparent", SENT);
    world.queues.publish_message("crm", &message.with_id(&id)).await;
    id
}

#[tokio::test]
async fn internal_errors_export_failed_spans_and_successes_and_refusals_do_not() {
    let collector = Collector::start();
    let world = collector.attach_to(World::with()).start().await;
    let lead = world.accept(enquiry_submitted()).await["leadId"].clone();
    break_inserts(&world, "event_ledger").await;
    let batch = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    assert_eq!(batch.json()["results"][0]["error"], "internal_error", "{batch:?}");
    let write = open_lead(&world).await;
    write.assert_error(500, "lead_create_failed");
    let action = act(&world, &lead).await;

    for span in [
        span_of_response(&collector, "batch", &batch).await,
        span_of_response(&collector, "write", &write).await,
        span_of(&collector, "action", &action).await,
    ] {
        assert!(span.is_failed(), "{span:?}");
        assert_eq!((span.service.as_str(), span.field("traceId")), ("connect-worker", TRACE));
    }

    restore_inserts(&world).await;
    let unknown = event("contact.updated").email("nobody@example.com").name("Nobody");
    let batch = world.http().send(&request(&world, unknown)).await;
    assert_eq!(batch.json()["results"][0]["error"], "contact_not_found", "{batch:?}");
    let write = open_lead(&world).await;
    assert_eq!(write.status, 201, "{write:?}");
    let nobody = world.key.records(
        "PATCH",
        &records_target(&format!("/leads/{}", Uuid::now_v7())),
        "{\"title\":\"x\"}",
    );
    let refused = world.http().send(&nobody).await;
    refused.assert_error(404, "not_found");
    let action = act(&world, &write.json()["data"]["id"]).await;
    let unknown = act(&world, &json!(Uuid::now_v7())).await;

    let write_span = span_of_response(&collector, "write", &write).await;
    let request_span = span_of_response(&collector, "request", &write).await;
    assert_eq!((write_span.field("traceId"), request_span.field("traceId")), (TRACE, TRACE));
    assert_eq!(write_span.field("parentSpanId"), request_span.field("spanId"));
    let action_span = span_of(&collector, "action", &action).await;
    assert_eq!(action_span.field("parentSpanId"), "b7ad6b7169203331");
    for span in [
        span_of_response(&collector, "batch", &batch).await,
        write_span,
        span_of_response(&collector, "write", &refused).await,
        action_span,
        span_of(&collector, "action", &unknown).await,
    ] {
        assert!(!span.is_failed(), "{span:?}");
        assert_eq!(span.json["kind"], 5, "a consumer: {span:?}");
    }
}

#[tokio::test]
async fn an_action_interrupted_by_shutdown_exports_a_failed_span() {
    let collector = Collector::start();
    let mut world = collector.attach_to(verbose()).dispatchers(0).through_proxies().start().await;
    world.workers[0].until_ready().await;
    world.proxies().postgres.reset_connections();
    let action = act(&world, &json!(Uuid::now_v7())).await;
    lines(&world.workers[0], "Postgres is unavailable; retrying the advisor action").await;
    assert!(world.workers[0].terminate().await.success());
    let span = span_of(&collector, "action", &action).await;
    assert!(span.is_failed(), "{span:?}");
}

#[tokio::test]
async fn an_expired_write_exports_a_failed_span() {
    let collector = Collector::start();
    let mut world =
        collector.attach_to(World::with()).workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let write = open_lead(&world).await;
    write.assert_error(503, "processing_timeout");
    world.add_worker().await;
    let span = span_of_response(&collector, "write", &write).await;
    assert!(span.is_failed(), "{span:?}");
}
