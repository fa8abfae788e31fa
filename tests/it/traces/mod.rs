//! Traces: the id of a request and its place in a trace, in answers, logs, messages, webhooks, and at a collector.

mod answers;
mod collector;
mod deliveries;
mod every_line;
mod export;
mod failures;
mod lines;
mod messages;
mod panics;

use serde_json::{Value, json};
use tests::event::batch;
use tests::{Event, Outgoing, PATIENCE, Program, World, WorldBuilder, event, eventually};
use uuid::Uuid;

/// A trace that a caller began.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
/// As it sends it.
const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Programs that log every request, unit and attempt, with a dispatcher that may send to this machine.
fn outspoken() -> WorldBuilder {
    World::with()
        .dispatchers(1)
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("RUST_LOG", "info,common=debug,ingest=debug,worker=debug,dispatcher=debug")
}

async fn subscribe(world: &World, url: &str) {
    world.connectctl.json(&["subscription", "create", "--tenant", "acme", "--url", url]).await;
}

/// An event that subscribers hear of.
fn enquiry() -> Event {
    event("enquiry.submitted").email("ana@example.com").name("Ana").payload(json!({}))
}

/// A signed batch of one.
fn request(world: &World, event: Event) -> Outgoing {
    world.key.events(batch(&[event]))
}

/// The trace of a `traceparent`, which must be one.
fn trace_of(traceparent: &str) -> &str {
    let parts: Vec<&str> = traceparent.split('-').collect();
    let [version, trace, span, flags] = parts[..] else { panic!("{traceparent}") };
    let is_hex = |text: &str| text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    assert!(parts.iter().all(|part| is_hex(part)), "{traceparent}");
    assert_eq!((version, trace.len(), span.len(), flags.len()), ("00", 32, 16, 2), "{traceparent}");
    trace
}

/// Lines of a program's log, of which one says `message`.
async fn lines(program: &Program, message: &str) -> Vec<Value> {
    eventually(&format!("a line says {message:?}"), PATIENCE, async || {
        let lines: Vec<Value> =
            program.logs().lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let says = lines.iter().any(|line| line["message"] == message);
        if says { Ok(lines) } else { Err(program.logs()) }
    })
    .await
}

/// Trace and request of the one line that says `message`.
async fn named(program: &Program, message: &str) -> (String, Option<String>) {
    let lines = lines(program, message).await;
    let saying: Vec<&Value> = lines.iter().filter(|line| line["message"] == message).collect();
    let [line] = saying[..] else { panic!("{saying:?}") };
    let field = |name: &str| line["span"][name].as_str().map(str::to_owned);
    (field("trace_id").unwrap_or_else(|| panic!("no trace: {line}")), field("request_id"))
}

/// The id of a request, as its answer says.
fn request_id(answer: &tests::Answer) -> Uuid {
    let sent: Vec<_> = answer.headers.get_all("x-request-id").iter().collect();
    assert_eq!(sent.len(), 1, "{answer:?}");
    let id = Uuid::try_parse(answer.header("x-request-id")).expect("a UUID");
    assert_eq!(id.get_version_num(), 7, "{id}");
    id
}
