//! Spans at a collector (OTLP over HTTP).

use super::collector::{Collector, Span};
use super::{SENT, TRACE, enquiry_submitted, request, request_id, verbose};
use std::collections::BTreeSet;
use tests::{Authority, Receiver, World};

#[tokio::test]
async fn one_batch_is_one_trace_through_all_programs_which_export_sampled_ones_until_they_end() {
    let collector = Collector::start();
    let mut world = collector.attach_to(verbose()).start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let response = world.http().send(&request(&world, enquiry_submitted())).await;
    assert_eq!(response.status, 200, "{response:?}");
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
        let response = world
            .http()
            .send(&super::request(&world, enquiry_submitted()).with("traceparent", traceparent))
            .await;
        assert_eq!(response.status, 200, "{response:?}");
    }
    // Each program exports what is left when it ends.
    for program in world.ingests.iter_mut().chain(&mut world.workers) {
        assert!(program.terminate().await.success());
    }
    let spans: Vec<Span> =
        collector.spans().into_iter().filter(|span| span.service != "connect-dispatcher").collect();
    let of_caller = |span: &&Span| span.field("traceId") == TRACE;
    let names: BTreeSet<&str> = spans.iter().filter(of_caller).map(|span| span.field("name")).collect();
    assert_eq!(names, BTreeSet::from(["batch", "request"]), "{spans:?}");
    let continued =
        spans.iter().filter(of_caller).any(|span| span.field("parentSpanId") == "b7ad6b7169203331");
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
    let world =
        World::with().workers(0).set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/otlp/")).start().await;
    for exports in 1..=2 {
        world.http().get("/nothing").await.expect("a response");
        collector.wait_for_at("/otlp/v1/traces", exports).await;
    }
    world.ingests[0].until_sum("connect_trace_spans_total", &[("outcome", "failed")], 2.0).await;
    let told = world.ingests[0].logs().lines().filter(|line| line.contains("exporting spans failed")).count();
    assert_eq!(told, 1);
}
