//! Request ids and traces in responses, logs, messages, webhooks, and at a collector.

mod collector;
mod deliveries;
mod export;
mod failures;
mod lines;
mod panics;
mod request_ids;

use serde_json::{Value, json};
use tests::event::batch;
use tests::{Event, HttpRequest, MAX_WAIT, Program, World, WorldBuilder, event, eventually};
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
        let lines: Vec<Value> =
            program.logs().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
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

/// The request id in a response.
fn request_id(response: &tests::HttpResponse) -> Uuid {
    let sent: Vec<_> = response.headers.get_all("x-request-id").iter().collect();
    assert_eq!(sent.len(), 1, "{response:?}");
    let id = Uuid::try_parse(response.header("x-request-id")).expect("a UUID");
    assert_eq!(id.get_version_num(), 7, "{id}");
    id
}
