//! Spans at a collector (OTLP over HTTP).

use super::{SENT, TRACE, enquiry, outspoken, request, request_id, subscribe};
use serde_json::Value;
use tests::{PATIENCE, Receiver, World, WorldBuilder, eventually, text};

/// A span as the collector got it.
#[derive(Clone, Debug)]
struct Span {
    service: String,
    json: Value,
}

impl Span {
    fn field(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or_default()
    }

    /// An attribute, as text.
    fn attribute(&self, name: &str) -> Option<&str> {
        let attributes = self.json["attributes"].as_array()?;
        let found = attributes.iter().find(|attribute| attribute["key"] == name)?;
        found["value"].as_object()?.values().next()?.as_str()
    }
}

/// A small collector, which takes what is posted to it.
struct Collector(Receiver);

impl Collector {
    fn start() -> Self {
        Self(Receiver::http())
    }

    fn of(&self, builder: WorldBuilder) -> WorldBuilder {
        builder.set("OTEL_EXPORTER_OTLP_ENDPOINT", &self.0.url(""))
    }

    /// All spans that have come.
    fn spans(&self) -> Vec<Span> {
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

    /// The one span of that name which `is` it, once it has come.
    async fn span(&self, name: &str, is: impl Fn(&Span) -> bool) -> Span {
        eventually(&format!("a span {name}"), PATIENCE, async || {
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

#[tokio::test]
async fn one_batch_is_one_trace_through_all_programs() {
    let collector = Collector::start();
    let world = collector.of(outspoken()).start().await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver.url("/hooks")).await;
    let answer = world.http().send(&request(&world, enquiry())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let id = request_id(&answer).to_string();
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
}

#[tokio::test]
async fn a_callers_trace_goes_on_and_one_that_is_not_sampled_is_not_exported() {
    let collector = Collector::start();
    let world = collector.of(World::with()).start().await;
    let unsampled = SENT.replace(TRACE, &TRACE.replace('0', "1")).replace("-01", "-00");
    for traceparent in [unsampled.as_str(), SENT] {
        let answer = world.http().send(&request(&world, enquiry()).with("traceparent", traceparent)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let mine = |span: &Span| span.field("traceId") == TRACE;
    let request = collector.span("request", mine).await;
    assert_eq!(request.field("parentSpanId"), "b7ad6b7169203331");
    collector.span("batch", mine).await;
    // Each program exports in order: what came before would be there.
    let others: Vec<Span> = collector.spans().into_iter().filter(|span| !mine(span)).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[tokio::test]
async fn a_program_that_ends_exports_what_is_left() {
    let collector = Collector::start();
    let mut world = collector.of(World::with()).start().await;
    let answer = world.http().send(&request(&world, enquiry())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert!(world.ingests[0].terminate().await.success() && world.workers[0].terminate().await.success());
    let names: Vec<String> = collector.spans().iter().map(|span| span.field("name").to_owned()).collect();
    assert_eq!(names, ["request", "batch"]);
}

#[tokio::test]
async fn a_collector_that_is_gone_or_never_answers_disturbs_nothing() {
    let silent = Receiver::http();
    silent.silent_at_the_door();
    for endpoint in ["http://127.0.0.1:1", &silent.url("")] {
        let mut world = World::with().set("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint).start().await;
        for _ in 0..3 {
            world.accept(enquiry()).await;
        }
        for program in world.ingests.iter_mut().chain(&mut world.workers) {
            assert!(program.terminate().await.success(), "{endpoint}");
        }
    }
}

#[tokio::test]
async fn what_a_collector_refuses_is_counted_and_told_once() {
    let collector = Receiver::http();
    collector.answer_all(tests::Behaviour::status(503));
    let world =
        World::with().workers(0).set("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url("/otlp/")).start().await;
    for exports in 1..=2 {
        world.http().get("/nothing").await.expect("an answer");
        collector.wait_for_at("/otlp/v1/traces", exports).await;
    }
    eventually("both are counted", PATIENCE, async || {
        let failed =
            world.ingests[0].metrics().await.sum("connect_trace_spans_total", &[("outcome", "failed")]);
        if failed == 2.0 { Ok(()) } else { Err(failed.to_string()) }
    })
    .await;
    let told =
        world.ingests[0].logs().lines().filter(|line| line.contains("spans can't be exported")).count();
    assert_eq!(told, 1);
}
