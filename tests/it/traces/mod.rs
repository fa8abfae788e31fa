//! Request ids and traces in responses, logs, messages, webhooks, and at a collector.

mod deliveries;
mod export;

use crate::records::{patch_request, post, records_target};
use export::act;
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::raw::exchange;
use tests::{
    Event, HttpRequest, MAX_WAIT, Program, QueuedMessage, Receiver, World, WorldBuilder, batch, event, eventually, text,
};
use uuid::Uuid;

/// A trace that a caller began.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// The `traceparent` header of that trace.
const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Programs that log every request, unit and attempt, with a dispatcher that may send to this machine.
fn verbose() -> WorldBuilder {
    World::with()
        .dispatchers(1)
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("RUST_LOG", "info,common=debug,ingest=debug,worker=debug,dispatcher=debug")
}

/// An event that causes a webhook.
fn enquiry_submitted() -> Event {
    event("enquiry.submitted").email("ana@example.com").name("Ana").payload(json!({}))
}

/// A signed batch of one.
fn request(world: &World, event: Event) -> HttpRequest {
    world.key.events(batch(&[event]))
}

/// The trace id of a valid `traceparent`.
fn trace_of(traceparent: &str) -> &str {
    let parts: Vec<&str> = traceparent.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { panic!("{traceparent}") };
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    assert!(parts.iter().all(|part| is_hex(part)), "{traceparent}");
    assert_eq!((version, trace.len(), span.len(), flags.len()), ("00", 32, 16, 2), "{traceparent}");
    trace
}

/// All log lines of a program, once one has `message`.
async fn lines(program: &Program, message: &str) -> Vec<Value> {
    eventually(&format!("a line says {message:?}"), MAX_WAIT, async || {
        let lines: Vec<Value> = program.logs().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let says = lines.iter().any(|line| line["message"] == message);
        if says { Ok(lines) } else { Err(program.logs()) }
    })
    .await
}

/// The log lines with `message`, once there are `count` of them.
async fn lines_with(program: &Program, message: &str, count: usize) -> Vec<Value> {
    eventually(&format!("{count} lines say {message:?}"), MAX_WAIT, async || {
        let mut lines = lines(program, message).await;
        lines.retain(|line| line["message"] == message);
        if lines.len() == count { Ok(lines) } else { Err(format!("{lines:?}")) }
    })
    .await
}

/// Trace id and request id of the only line with `message`.
async fn trace_and_request(program: &Program, message: &str) -> (String, Option<String>) {
    let line = &lines_with(program, message, 1).await[0];
    let field = |name: &str| line["span"][name].as_str().map(str::to_owned);
    (field("trace_id").unwrap_or_else(|| panic!("no trace: {line}")), field("request_id"))
}

fn request_id(response: &tests::HttpResponse) -> Uuid {
    let sent: Vec<_> = response.headers.get_all("x-request-id").iter().collect();
    assert_eq!(sent.len(), 1, "{response:?}");
    let id = Uuid::try_parse(response.header("x-request-id")).expect("a UUID");
    assert_eq!(id.get_version_num(), 7, "{id}");
    id
}

#[tokio::test]
async fn a_panic_is_logged_with_its_request() {
    let mut world = World::start().await;
    world.accept(enquiry_submitted()).await;
    world.end_workers().await;
    world.restart_ingest_with("CONNECT_REPLY_TIMEOUT", "300ms").await;
    // A worker that finds an unexpected column type panics: the schema is wrong.
    world.database.execute("ALTER TABLE clients ALTER COLUMN name TYPE bytea USING name::bytea").await;
    world.add_worker().await;
    let response = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    assert_eq!(response.status, 503, "{response:?}");
    let message = "a thread panicked; abandoning its current task";
    let panicked = &lines_with(&world.workers[0], message, 1).await[0];
    let expected = (TRACE, request_id(&response).to_string());
    let span = &panicked["span"];
    assert_eq!((text(&span["trace_id"]), text(&span["request_id"])), (expected.0, expected.1.as_str()));
    assert!(text(&panicked["place"]).contains(".rs:"), "{panicked}");
    assert!(!world.workers[0].until_ended(MAX_WAIT).await.success());
    // `lines` has parsed all output as JSON: nothing is written beside the log.
    lines(&world.workers[0], "a critical task panicked; the process aborts").await;
}

#[tokio::test]
async fn every_response_has_a_request_id() {
    let mut world = World::with().set("CONNECT_MAX_BODY", "64KiB").start().await;
    let signed = |body: &str| world.key.events(body.to_owned());
    let unknown = records_target(&format!("/clients/{}", Uuid::now_v7()));
    let body = json!({"email": "ana@example.com", "name": "Ana"});
    let created = post(&world, "/clients", body.clone()).await;
    let mut responses = vec![(201, created), (409, post(&world, "/clients", body).await)];
    for (status, request) in [
        (200, request(&world, enquiry_submitted())),
        (400, signed("{}")),
        (401, HttpRequest::new("POST", tests::EVENTS, "{}")),
        (404, HttpRequest::new("GET", "/nothing/here", "")),
        (404, world.key.records("GET", &unknown, "")),
        (405, HttpRequest::new("PUT", tests::EVENTS, "")),
        (413, signed(&" ".repeat(65 << 10))),
    ] {
        responses.push((status, world.http().send(&request).await));
    }
    // Without a worker there is no reply.
    world.workers[0].kill();
    world.restart_ingest_with("CONNECT_REPLY_TIMEOUT", "1s").await;
    responses.push((503, world.http().send(&request(&world, enquiry_submitted())).await));
    let mut ids = HashSet::new();
    for (status, response) in &responses {
        assert_eq!(response.status, *status, "{response:?}");
        assert!(ids.insert(request_id(response)), "twice: {response:?}");
    }
}

#[tokio::test]
async fn the_request_id_is_the_stored_one_and_not_the_callers() {
    let world = World::shared().await;
    let own = Uuid::now_v7();
    let response = world.http().send(&request(&world, enquiry_submitted()).with("x-request-id", own.to_string())).await;
    assert_eq!(response.status, 200, "{response:?}");
    let id = request_id(&response);
    assert_ne!(id, own);
    let rows = world.database.rows("SELECT request_id::text AS id FROM event_ledger", &[]).await;
    assert_eq!(rows, [json!({"id": id.to_string()})]);
}

#[tokio::test]
async fn responses_of_the_http_library_have_no_request_id() {
    let world = World::shared().await;
    for (status, request) in [
        (400, "no http\r\n\r\n".to_owned()),
        (414, format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(65_534))),
        (431, format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200))),
    ] {
        let response = exchange(world.http().address(), request).await;
        assert_eq!(response.status, status, "{response:?}");
        assert!(!response.head.to_lowercase().contains("x-request-id"), "{response:?}");
    }
}

#[tokio::test]
async fn a_callers_trace_is_in_the_logs_of_all_programs_and_in_the_webhook() {
    let world = verbose().start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let send =
        async |request: HttpRequest| world.http().send(&request.with("traceparent", SENT)).await.assert_status(200);
    let opened = send(request(&world, enquiry_submitted())).await;
    let expected = (TRACE.to_owned(), Some(request_id(&opened).to_string()));
    assert_eq!(trace_and_request(&world.ingests[0], "request completed").await, expected);
    assert_eq!(trace_and_request(&world.workers[0], "unit of events applied").await, expected);
    assert_eq!(trace_and_request(&world.dispatchers[0], "webhook attempt finished").await, expected);

    let lead = &opened.json()["results"][0]["leadId"];
    let change = json!({"stage": "negotiation"});
    let written = send(patch_request(&world.key, &format!("/leads/{}", text(lead)), &change)).await;
    let expected = (TRACE.to_owned(), Some(request_id(&written).to_string()));
    assert_eq!(trace_and_request(&world.workers[0], "records write finished; replying").await, expected);

    // An advisor action takes its trace from the message header.
    let id = act(&world, lead).await;
    let expected = (TRACE.to_owned(), Some(id));
    assert_eq!(trace_and_request(&world.workers[0], "advisor action finished").await, expected);
    for webhook in receiver.wait_for(3).await {
        let header = webhook.header("traceparent");
        assert_eq!(trace_of(header), TRACE);
        assert!(!header.contains("b7ad6b7169203331"), "the caller's own span: {header}");
        // The sampled flag is passed on.
        assert!(header.ends_with("-01"), "{header}");
    }
}

#[tokio::test]
async fn an_invalid_traceparent_is_replaced_by_a_new_trace() {
    let upper = SENT.to_uppercase();
    let headers: [&[&str]; 7] = [
        &[],
        &[""],
        &["nonsense"],
        &[&SENT[..54]],
        &[&upper],
        &["00-00000000000000000000000000000000-b7ad6b7169203331-01"],
        // Two headers are ambiguous.
        &[SENT, SENT],
    ];
    let world = World::with().set("RUST_LOG", "info,ingest=debug").join().await;
    for headers in headers {
        let mut request = HttpRequest::new("GET", "/nothing", "");
        for header in headers {
            request = request.with("traceparent", header);
        }
        assert_eq!(world.http().send(&request).await.status, 404, "{headers:?}");
    }
    let lines = lines_with(&world.ingests[0], "request completed", headers.len()).await;
    let mut traces: Vec<&str> = lines.iter().map(|line| text(&line["span"]["trace_id"])).collect();
    assert!(traces.iter().all(|trace| trace.len() == 32 && *trace != TRACE), "{traces:?}");
    traces.sort_unstable();
    traces.dedup();
    assert_eq!(traces.len(), headers.len());
}

#[tokio::test]
async fn a_warning_names_its_request_even_at_log_level_warn_and_so_does_the_message() {
    let mut world = World::with().workers(0).start().await;
    world.set("RUST_LOG", "info,ingest=warn,ingest::server=info");
    world.restart_ingest_with("CONNECT_REPLY_TIMEOUT", "300ms").await;
    let response = world.http().send(&request(&world, enquiry_submitted()).with("traceparent", SENT)).await;
    assert_eq!(response.status, 503, "{response:?}");
    let expected = (TRACE.to_owned(), Some(request_id(&response).to_string()));
    assert_eq!(trace_and_request(&world.ingests[0], "request failed").await, expected);
    let line = &lines_with(&world.ingests[0], "request failed", 1).await[0];
    let named = (&line["code"], &line["tenant"], &line["key"]);
    assert_eq!(named, (&json!("processing_timeout"), &json!("acme"), &json!(world.key.prefix)), "{line}");
    let message = waiting(&world, "events").await;
    let header = message.header("traceparent").expect("a header");
    assert_eq!(trace_of(&header), TRACE);
    assert_ne!(header, SENT, "the parent of what follows is ingest's span");
    assert_eq!(message.meta_field("traceparent"), *header);
    assert_eq!(text(&message.meta_field("requestId")), request_id(&response).to_string());
}

pub(super) async fn waiting(world: &World, queue: &str) -> QueuedMessage {
    eventually(&format!("a message in {queue}"), MAX_WAIT, async || {
        world.queues.take(queue).await.ok_or_else(|| "none".to_owned())
    })
    .await
}
