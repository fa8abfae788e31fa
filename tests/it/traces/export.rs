//! Spans at a collector (OTLP over HTTP), a minimal one of the tests. Internal errors are exported as failed, errors of
//! the caller are not.

use super::{SENT, TRACE, enquiry_submitted, request, request_id, verbose};
use crate::records::{break_inserts, post_request, records_target, restore_inserts};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::{
    Authority, HttpResponse, MAX_WAIT, QueuedMessage, Receiver, World, WorldBuilder, event, eventually, text,
    until_equal,
};
use uuid::Uuid;

#[tokio::test]
async fn one_batch_is_one_trace_through_all_programs_which_export_sampled_ones_until_they_end() {
    let collector = Collector::start();
    let mut world = collector.attach_to(verbose()).start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let response = world.http().send(&request(&world, enquiry_submitted())).await.assert_status(200);
    let id = request_id(&response).to_string();
    let is_of_it = |span: &Span| span.attribute("connect.request_id") == Some(id.as_str());
    let request = collector.span("request", is_of_it).await;
    let batch = collector.span("batch", is_of_it).await;
    let delivery = collector.span("delivery", is_of_it).await;

    let services = [&request, &batch, &delivery].map(|span| span.service.as_str());
    assert_eq!(services, ["connect-ingest", "connect-worker", "connect-dispatcher"]);
    let trace = request.field("traceId");
    assert!(trace.len() == 32 && request.field("parentSpanId").is_empty(), "{request:?}");
    assert_eq!((batch.field("traceId"), delivery.field("traceId")), (trace, trace));
    assert_eq!(batch.field("parentSpanId"), request.field("spanId"));
    assert_eq!(delivery.field("parentSpanId"), batch.field("spanId"));
    let webhook = receiver.wait_for(1).await.remove(0);
    assert_eq!(webhook.header("traceparent"), format!("00-{trace}-{}-01", delivery.field("spanId")));

    assert_eq!(request.attribute("http.route"), Some("/api/v1/crm/connect/events"));
    assert_eq!(request.attribute("http.response.status_code"), Some("200"));
    assert_eq!(delivery.attribute("connect.outcome"), Some("delivered"));
    for span in [&request, &batch, &delivery] {
        let nanos = |name: &str| span.field(name).parse::<u64>().expect("nanoseconds");
        assert!(nanos("startTimeUnixNano") <= nanos("endTimeUnixNano"), "{span:?}");
        assert!(!span.json.to_string().contains("ana@example.com"), "{span:?}");
    }

    let unsampled = SENT.replace(TRACE, &TRACE.replace('0', "1")).replace("-01", "-00");
    for traceparent in [unsampled.as_str(), SENT] {
        let response =
            world.http().send(&super::request(&world, enquiry_submitted()).with("traceparent", traceparent)).await;
        assert_eq!(response.status, 200, "{response:?}");
    }
    // Each program exports what is left when it ends.
    for program in world.ingests.iter_mut().chain(&mut world.workers) {
        assert!(program.terminate().await.success());
    }
    let spans: Vec<Span> = collector.spans().into_iter().filter(|span| span.service != "connect-dispatcher").collect();
    let of_caller = |span: &&Span| span.field("traceId") == TRACE;
    let names: BTreeSet<&str> = spans.iter().filter(of_caller).map(|span| span.field("name")).collect();
    assert_eq!(names, BTreeSet::from(["batch", "request"]), "{spans:?}");
    let continued = spans.iter().filter(of_caller).any(|span| span.field("parentSpanId") == "b7ad6b7169203331");
    assert!(continued && spans.len() == 4, "{spans:?}");
}

#[tokio::test]
async fn a_collector_of_an_authority_that_is_no_root_of_the_system_gets_nothing() {
    let authority = Authority::new();
    let file = authority.file().to_str().expect("a path that is text");
    let stranger = Collector::https(&Authority::new());
    let world = stranger.attach_to(World::with()).workers(0).set("SSL_CERT_FILE", file).start().await;
    world.http().get("/nothing").await.expect("a response");
    super::lines(&world.ingests[0], "exporting spans failed; dropping spans until it works again").await;
    assert_eq!(stranger.spans().len(), 0);
}

#[tokio::test]
async fn an_unreachable_collector_affects_neither_requests_nor_the_shutdown() {
    let silent = Receiver::http();
    silent.ignore_new_connections();
    for endpoint in ["http://127.0.0.1:1", &silent.url("")] {
        let mut world = World::with().set("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).start().await;
        for _ in 0..3 {
            world.accept(enquiry_submitted()).await;
        }
        for program in world.ingests.iter_mut().chain(&mut world.workers) {
            assert!(program.terminate().await.success(), "{endpoint}");
        }
    }
}

#[tokio::test]
async fn spans_rejected_by_a_collector_are_counted_and_logged_once() {
    let collector = Receiver::http();
    collector.respond_to_all(tests::Behavior::status(503));
    let world = World::with().workers(0).set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/otlp/")).start().await;
    for exports in 1..=2 {
        world.http().get("/nothing").await.expect("a response");
        collector.wait_for_at("/otlp/v1/traces", exports).await;
    }
    world.ingests[0].until_sum("connect_trace_spans_total", &[("outcome", "failed")], 2.0).await;
    let told = world.ingests[0].logs().lines().filter(|line| line.contains("exporting spans failed")).count();
    assert_eq!(told, 1);
}

/// A span as the collector got it.
#[derive(Clone, Debug)]
pub(super) struct Span {
    /// The program that sent it.
    pub(super) service: String,
    pub(super) json: Value,
}

impl Span {
    /// A field that is text; empty if it is absent.
    pub(super) fn field(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or_default()
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let attributes = self.json["attributes"].as_array()?;
        let found = attributes.iter().find(|attribute| attribute["key"] == name)?;
        found["value"].as_object()?.values().next()?.as_str()
    }

    /// Whether its status is an error.
    pub(super) fn is_failed(&self) -> bool {
        self.json["status"]["code"] == 2
    }
}

/// A minimal collector, which accepts everything that is posted to it.
pub(super) struct Collector(Receiver);

impl Collector {
    pub(super) fn start() -> Self {
        Self(Receiver::http())
    }

    pub(super) fn https(authority: &Authority) -> Self {
        Self(Receiver::https(authority))
    }

    /// Makes the programs of a world export to this collector.
    pub(super) fn attach_to(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.set("OTEL_EXPORTER_OTLP_ENDPOINT", &self.0.url(""))
    }

    /// All spans received so far.
    pub(super) fn spans(&self) -> Vec<Span> {
        let mut spans = Vec::new();
        for export in self.0.received() {
            assert_eq!((export.method(), export.target()), ("POST", "/v1/traces"));
            assert_eq!(export.header("content-type"), "application/json");
            for resource in export.json()["resourceSpans"].as_array().expect("resources") {
                let service = text(&resource["resource"]["attributes"][0]["value"]["stringValue"]);
                for json in resource["scopeSpans"][0]["spans"].as_array().expect("spans") {
                    spans.push(Span { service: service.to_owned(), json: json.clone() });
                }
            }
        }
        spans
    }

    /// Waits for the one span with that name for which `is` holds.
    pub(super) async fn span(&self, name: &str, is: impl Fn(&Span) -> bool) -> Span {
        eventually(&format!("a span {name}"), MAX_WAIT, async || {
            let spans = self.spans();
            let mut found = spans.iter().filter(|span| span.field("name") == name && is(span));
            match (found.next(), found.next()) {
                (Some(span), None) => Ok(span.clone()),
                _ => Err(format!("{spans:?}")),
            }
        })
        .await
    }
}

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
    let action = json!({"action": "stage", "tenant": "acme", "lead": lead, "stage": "lost", "reason": "too dear"});
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
    let write = open_lead(&world).await.assert_status(201);
    let nobody =
        world.key.records("PATCH", &records_target(&format!("/leads/{}", Uuid::now_v7())), "{\"title\":\"x\"}");
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
    // The lane that looks for stored actions logs that Postgres is unavailable, too.
    until_equal("the action is under way", true, async || {
        let metrics = world.workers[0].metrics().await;
        metrics.sum("connect_oldest_unacknowledged_seconds", &[("queue", "crm")]) > 0.0
    })
    .await;
    assert!(world.workers[0].terminate().await.success());
    let span = span_of(&collector, "action", &action).await;
    assert!(span.is_failed(), "{span:?}");
}

#[tokio::test]
async fn an_expired_write_exports_a_failed_span() {
    let collector = Collector::start();
    let mut world = collector.attach_to(World::with()).workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let write = open_lead(&world).await;
    write.assert_error(503, "processing_timeout");
    world.add_worker().await;
    let span = span_of_response(&collector, "write", &write).await;
    assert!(span.is_failed(), "{span:?}");
}
