//! Every log line names its request and its trace, except lines of background work, and the module that logged it.

use super::{SENT, TRACE, enquiry_submitted, lines, request, verbose};
use crate::records::{break_inserts, get, post, records_target, restore_inserts};
use serde_json::{Value, json};
use std::path::Path;
use tests::{Behavior, HttpRequest, Program, QueuedMessage, Receiver, World, text};
use uuid::Uuid;

/// Messages of background work.
const BACKGROUND: [&str; 11] = [
    "listening for API requests",
    "listening for metrics and health requests",
    "CONNECT_WEBHOOK_ALLOW_PRIVATE is set: receivers may be http:// and on loopback addresses",
    "CONNECT_CRM_UNSIGNED is allow: whoever can publish to the crm queue can act as an advisor of any tenant",
    "broker connected",
    "readiness changed",
    "became the relay leader; relaying the outbox",
    // The outage affected other requests than the one that ends it.
    "Postgres is available again",
    // A transaction for the deliveries of many requests; deliveries that fail alone are named one by one.
    "recording deliveries failed; retrying",
    // From hyper: the input was not HTTP, or the peer disconnected.
    "HTTP connection closed with an error",
    // There is no request yet.
    "connection refused: too many connections",
];

fn is_background(line: &Value) -> bool {
    // The relay's transactions are about what many requests have caused.
    let is_relays = line["message"] == "transaction rolled back after a conflict; running it again"
        && ["relay", "unpark"].contains(&text(&line["name"]));
    // The key watch may time out on a busy machine.
    let is_watch =
        line["message"] == "a background task cannot use Postgres; retrying" && line["what"] == "key watch";
    // Programs look for queues that others have not declared yet.
    let is_queue_missing = line["message"] == "connecting to the broker failed; retrying"
        || line["target"] == "lapin::channel" && line["message"] == "Channel closed"
        || line["message"] == "the broker reported an error on the connection or a channel"
            && text(&line["error"]).contains("NOT_FOUND - no queue");
    is_relays || is_watch || is_queue_missing || BACKGROUND.contains(&text(&line["message"]))
}

/// Publishes a message that no program can read, with all ids that a message can have, and returns its id.
async fn poison(world: &World, queue: &str) -> Uuid {
    let id = Uuid::now_v7();
    let message = QueuedMessage::new(b"poison").with_header("traceparent", SENT);
    world.queues.publish_message(queue, &message.with_id(&id.to_string())).await;
    id
}

/// Causes refusals within ingest, and reads of corrupt records.
async fn cause_ingest_refusals(world: &World, lead: &Value) {
    let unknown = world.key.records("GET", &records_target(&format!("/clients/{}", Uuid::now_v7())), "");
    for (status, request) in [
        (401, HttpRequest::new("POST", tests::EVENTS, "{}")),
        (401, request(world, enquiry_submitted()).replacing("x-connect-signature", "t=1,v1=00")),
        (400, world.key.events("{}")),
        (404, HttpRequest::new("GET", "/nothing", "")),
        (404, unknown),
    ] {
        assert_eq!(world.http().send(&request).await.status, status);
    }
    world.database.execute("ALTER TABLE replay_entries RENAME TO kept").await;
    get(world, "/leads?externalId=1").await.assert_error(503, "replay_store_unavailable");
    world.database.execute("ALTER TABLE kept RENAME TO replay_entries").await;
    world.database.execute("UPDATE trips SET brief = '[1]'").await;
    let trip = format!("/leads/{}/trip", text(lead));
    get(world, &trip).await.assert_error(500, "internal_error");
    world.database.execute("UPDATE trips SET brief = '{}'").await;
    // Every read of the view fails in the database.
    let refusing = "ALTER TABLE trips RENAME TO trips_kept;
        CREATE VIEW trips AS SELECT * FROM trips_kept WHERE 1 / (random() * 0)::integer = 1;
        GRANT SELECT ON trips TO PUBLIC";
    world.database.execute(refusing).await;
    get(world, &trip).await.assert_error(500, "internal_error");
    world.database.execute("DROP VIEW trips; ALTER TABLE trips_kept RENAME TO trips").await;
}

/// Causes unreadable messages and internal errors.
async fn cause_worker_failures(world: &World, lead: &Value) -> [Uuid; 4] {
    let poison = [
        poison(world, "events").await,
        poison(world, "records").await,
        poison(world, "crm").await,
        poison(world, "webhooks").await,
    ];
    break_inserts(world, "event_ledger").await;
    let batch = world.http().send(&request(world, enquiry_submitted())).await;
    assert_eq!(batch.json()["failed"], 1, "{batch:?}");
    let body = json!({"contact": {"email": "bo@example.com", "name": "Bo"}});
    post(world, "/leads", body).await.assert_error(500, "lead_create_failed");
    let stage =
        |lead: &Value| json!({"action": "stage", "tenant": "acme", "lead": lead, "stage": "follow_up"});
    for action in [stage(lead), stage(&json!(Uuid::now_v7())), json!("no action")] {
        // Without an id or a trace of the sender.
        world.queues.publish("crm", action.to_string().as_bytes()).await;
    }
    lines(
        &world.workers[0],
        "advisor action failed; replying with an error, or dead-lettering it if no reply is wanted",
    )
    .await;
    restore_inserts(world).await;
    poison
}

fn is_of_library(line: &Value) -> bool {
    text(&line["target"]).starts_with("lapin::")
}

/// Whether the module's file is where docs/operators.md says ("Logs and traces").
fn source_file_exists(module: &str) -> bool {
    let (program, rest) = module.split_once("::").unwrap_or((module, "lib"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(program)
        .join("src")
        .join(rest.replace("::", "/"));
    path.with_extension("rs").exists() || path.join("mod.rs").exists()
}

/// Checks that all log lines so far name their request and their module; each message of `expected` must be among them.
async fn assert_lines_named(program: &Program, expected: &[&str]) -> Vec<Value> {
    for message in expected {
        lines(program, message).await;
    }
    let all = lines(program, "listening for metrics and health requests").await;
    for line in &all {
        let named = |one: &str, several: &str| {
            let span = &line["span"];
            span[one].as_str().or(span[several].as_str()).is_some_and(|ids| !ids.is_empty())
        };
        let is_named = named("trace_id", "trace_ids") && named("request_id", "request_ids");
        assert!(is_named || is_background(line), "names no request or trace: {line}");
        assert!(is_of_library(line) || source_file_exists(text(&line["target"])), "names no module: {line}");
    }
    all
}

#[tokio::test]
async fn every_log_line_names_its_request_and_its_trace() {
    let world = verbose().set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    let receiver = Receiver::http();
    receiver.respond_to_next("/hooks", [Behavior::status(500)]);
    world.subscribe(&receiver.url("/hooks")).await;
    let lead = world.accept(enquiry_submitted()).await["leadId"].clone();
    lines(&world.dispatchers[0], "webhook attempts used up; dead-lettering the delivery").await;
    cause_ingest_refusals(&world, &lead).await;
    let poison = cause_worker_failures(&world, &lead).await;
    break_inserts(&world, "attempts").await;
    world.accept(enquiry_submitted()).await;
    lines(
        &world.dispatchers[0],
        "recording a delivery failed; dead-lettering its message, or publishing one if it has none",
    )
    .await;

    assert_lines_named(
        &world.ingests[0],
        &[
            "request completed",
            "request failed",
            "authentication refused",
            "Postgres is unavailable; responding 503 to requests that need it",
            "a record does not match the schema; responding 500",
            "the database refused a records query; responding 500",
        ],
    )
    .await;
    let worker = assert_lines_named(
        &world.workers[0],
        &[
            "unit of events failed; applying it again, in halves if it has several events",
            "event failed; reporting it as failed in the reply",
            "records write failed; replying with an error",
            "advisor action failed; replying with an error, or dead-lettering it if no reply is wanted",
            "advisor action refused; replying with the reason if a reply is wanted",
        ],
    )
    .await;
    let dispatcher =
        assert_lines_named(&world.dispatchers[0], &["webhook attempt finished", "message dead-lettered"])
            .await;
    for (lines, ids) in [(worker, &poison[..3]), (dispatcher, &poison[3..])] {
        let dead: Vec<&Value> =
            lines.iter().filter(|line| line["message"] == "message dead-lettered").collect();
        for id in ids {
            let is_its = |line: &&&Value| line["span"]["request_id"] == id.to_string();
            let line = dead.iter().find(is_its).unwrap_or_else(|| panic!("{id}: {dead:?}"));
            assert_eq!((text(&line["level"]), text(&line["span"]["trace_id"])), ("ERROR", TRACE), "{line}");
        }
    }
}
