//! Every line that a program logs names its request and its trace, but for what no request has to do with.

use super::{SENT, TRACE, enquiry, lines, outspoken, request, subscribe};
use crate::records::{at, break_inserts, get, mend, post};
use serde_json::{Value, json};
use tests::{Behaviour, Outgoing, Program, QueuedMessage, Receiver, World, text};
use uuid::Uuid;

/// What programs say of themselves and their servers.
const BACKGROUND: [&str; 10] = [
    "listening",
    "CONNECT_WEBHOOK_ALLOW_PRIVATE is set: receivers may be http:// and on loopback addresses",
    "CONNECT_CRM_UNSIGNED is allow: whoever can publish to the crm queue can act as an advisor of any tenant",
    "broker connected",
    "readiness changed",
    "relaying the outbox",
    // Something that was away, and had refused others than the one that finds it there again.
    "dependency available again",
    // A transaction for the deliveries of many requests; those that it doesn't fit are named one by one.
    "can't put deliveries on record, trying again",
    // Hyper's: it refused what was no HTTP, or the other end is gone.
    "connection ended",
    // There is no request yet.
    "connection refused: too many connections",
];

fn is_background(line: &Value) -> bool {
    // The relay's transactions are about what many requests have caused.
    let is_relays = line["message"] == "transaction rolled back; running it again"
        && ["relay", "unpark"].contains(&text(&line["name"]));
    // The watch fails by itself when the machine is busy.
    let is_watch =
        line["message"] == "dependency unavailable; requests are answered 503" && line["what"] == "key watch";
    is_relays || is_watch || BACKGROUND.contains(&text(&line["message"]))
}

/// What is in every queue a poison, with all ids that a message can have.
async fn poison(world: &World, queue: &str) -> Uuid {
    let id = Uuid::now_v7();
    let message = QueuedMessage::new(b"poison").with_header("traceparent", SENT);
    world.queues.put(queue, &message.with_id(&id.to_string())).await;
    id
}

/// Refusals that never leave ingest, and records that can't be read.
async fn refuse_in_ingest(world: &World, lead: &Value) {
    let unknown = world.key.records("GET", &at(&format!("/clients/{}", Uuid::now_v7())), "");
    for (status, request) in [
        (401, Outgoing::new("POST", tests::EVENTS, "{}")),
        (401, request(world, enquiry()).replacing("x-connect-signature", "t=1,v1=00")),
        (400, world.key.events("{}")),
        (404, Outgoing::new("GET", "/nothing", "")),
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
    // Whoever reads it is refused by the database.
    let refusing = "ALTER TABLE trips RENAME TO trips_kept;
        CREATE VIEW trips AS SELECT * FROM trips_kept WHERE 1 / (random() * 0)::integer = 1";
    world.database.execute(refusing).await;
    get(world, &trip).await.assert_error(500, "internal_error");
    world.database.execute("DROP VIEW trips; ALTER TABLE trips_kept RENAME TO trips").await;
}

/// What can't be read, and what fails.
async fn fail_in_the_worker(world: &World, lead: &Value) -> [Uuid; 4] {
    let poison = [
        poison(world, "events").await,
        poison(world, "records").await,
        poison(world, "crm").await,
        poison(world, "webhooks").await,
    ];
    break_inserts(world, "event_ledger").await;
    let batch = world.http().send(&request(world, enquiry())).await;
    assert_eq!(batch.json()["failed"], 1, "{batch:?}");
    let body = json!({"contact": {"email": "bo@example.com", "name": "Bo"}});
    post(world, "/leads", body).await.assert_error(500, "lead_create_failed");
    let stage =
        |lead: &Value| json!({"action": "stage", "tenant": "acme", "lead": lead, "stage": "follow_up"});
    for action in [stage(lead), stage(&json!(Uuid::now_v7())), json!("no action")] {
        // Neither an id nor a trace of the sender's.
        world.queues.publish("crm", action.to_string().as_bytes()).await;
    }
    lines(&world.workers[0], "action failed").await;
    mend(world).await;
    poison
}

/// Checks all lines so far; each of `expected` must be among them.
async fn check(program: &Program, expected: &[&str]) -> Vec<Value> {
    for message in expected {
        lines(program, message).await;
    }
    let all = lines(program, "listening").await;
    for line in &all {
        let named = |one: &str, several: &str| {
            let span = &line["span"];
            span[one].as_str().or(span[several].as_str()).is_some_and(|ids| !ids.is_empty())
        };
        let is_named = named("trace_id", "trace_ids") && named("request_id", "request_ids");
        assert!(is_named || is_background(line), "names no request or trace: {line}");
    }
    all
}

#[tokio::test]
async fn every_line_of_every_program_names_its_request_and_its_trace() {
    let world = outspoken().set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    let receiver = Receiver::http();
    receiver.answer_next("/hooks", [Behaviour::status(500)]);
    subscribe(&world, &receiver.url("/hooks")).await;
    let lead = world.accept(enquiry()).await["leadId"].clone();
    lines(&world.dispatchers[0], "attempts used up: dead letter").await;
    refuse_in_ingest(&world, &lead).await;
    let poison = fail_in_the_worker(&world, &lead).await;
    break_inserts(&world, "attempts").await;
    world.accept(enquiry()).await;
    lines(&world.dispatchers[0], "a delivery can't be put on record").await;

    check(
        &world.ingests[0],
        &[
            "answered",
            "request failed",
            "authentication refused",
            "dependency unavailable; requests are answered 503",
            "a record can't be read",
            "a read was refused",
        ],
    )
    .await;
    let worker = check(
        &world.workers[0],
        &[
            "unit failed; applying it in halves",
            "event failed",
            "records write failed",
            "action failed",
            "action refused",
        ],
    )
    .await;
    let dispatcher = check(&world.dispatchers[0], &["attempted", "message dead-lettered"]).await;
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
