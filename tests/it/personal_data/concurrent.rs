//! Events about a person arrive while the person is erased.

use super::{AFTER, BEFORE, at, erase, identified, outcome, tables_with};
use crate::advisor::act;
use crate::faults::shifted;
use crate::operator::doctor::{until_fixed, until_found};
use crate::records::{post_request, records_target};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use tests::{ApiKey, Event, MAX_WAIT, World, batch, event, eventually, send_signal, slug, text, until, until_equal};
use tokio::process::Child;

const MARKER: &str = "zq8marker";
/// Tasks that send events, and the events of one batch.
const SENDERS: u32 = 4;
const BATCH: u32 = 5;
/// Writes of a tenant that is locked: more than all lanes are delivered ahead.
const WRITES: usize = 40;
/// Bytes of such a write, with which it is too large to share a message.
const WRITE_BYTES: usize = 32 * 1024;
/// Its backlog units.
const WRITE_UNITS: usize = 8;

fn older(number: u32) -> Event {
    let kinds = ["contact.identified", "enquiry.submitted", "traveller.discovery_upserted", "booking.started"];
    let kind = kinds[usize::try_from(number).expect("few") % kinds.len()];
    let payload = json!({"message": MARKER, "discovery": {"tripNotes": MARKER}});
    at(BEFORE, event(kind)).email("zq8marker@example.com").name(MARKER).payload(payload)
}

/// Sends batches until it is told to stop, and returns the results.
async fn send(world: &World, stop: &AtomicBool) -> Vec<Value> {
    let (mut results, mut number) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let batch: Vec<Event> = (0..BATCH).map(|at| older(number + at)).collect();
        number += BATCH;
        let response = world.send(&batch).await;
        // A queue may be full for a moment.
        if response.status == 200 {
            results.extend(response.json()["results"].as_array().expect("results").clone());
        }
    }
    results
}

#[tokio::test]
async fn events_that_arrive_during_an_erasure_do_not_bring_the_person_back() {
    let mut world = World::start().await;
    world.add_worker().await;
    let client = world.accept(older(0)).await["clientId"].clone();
    let stop = AtomicBool::new(false);
    let erasing = async {
        let applied = async || world.database.count("SELECT count(*) FROM timeline").await;
        until("events arrive", applied, |&applied| applied > 40).await;
        let receipt = erase(&world.connectctl, &client).await;
        // Events that are sent now are refused.
        let refused = world.result(older(0)).await;
        stop.store(true, Ordering::Relaxed);
        (receipt, refused)
    };
    let senders = join_all((0..SENDERS).map(|_| send(&world, &stop)));
    let ((receipt, refused), results) = futures_util::join!(erasing, senders);
    assert_eq!(refused["error"], "contact_erased", "{refused}");
    let results: Vec<Value> = results.into_iter().flatten().collect();
    let accepted = results.iter().filter(|result| result["status"] == "accepted").count();
    let of_nobody_else = |result: &Value| result["clientId"].is_null() || result["clientId"] == client;
    assert!(accepted > 0 && results.iter().all(of_nobody_else), "{results:?}");
    // What was accepted was removed. Requests that got no response in time may have been applied as well.
    let removed = receipt["removed"]["timeline"].as_u64().expect("a number");
    assert!(removed > accepted as u64, "{removed} {accepted}");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    assert_eq!(tables_with(&world, MARKER).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_unit_that_has_begun_is_finished_first_and_its_effects_are_erased() {
    let world = World::start().await;
    let client = world.accept(identified().email("zq8marker@example.com")).await["clientId"].clone();
    // The unit waits in its second round trip, after it has read the client.
    let gate = world.database.hold_inserts("timeline").await;
    let sent = world.result(identified().email("zq8marker@example.com").payload(json!({"note": MARKER})));
    let erased = async {
        world.database.until_worker_is_held().await;
        let erase = erase(&world.connectctl, &client);
        let free = async {
            world.database.until_lock_wait_of("connectctl").await;
            drop(gate);
        };
        futures_util::join!(erase, free).0
    };
    let (result, receipt) = futures_util::join!(sent, erased);
    assert_eq!(result["status"], "accepted", "{result}");
    assert_eq!(receipt["removed"]["timeline"], 2, "{receipt}");
    assert_eq!(tables_with(&world, MARKER).await, Vec::<String>::new());
}

#[tokio::test]
async fn events_are_applied_while_the_erasure_deletes_what_may_be_many_rows() {
    let world = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").workers(0).start().await;
    // The times of what it writes meanwhile are the database's: otherwise the erasure would look for later ones.
    let _worker = shifted(&world, "connect-worker", "-3600").await;
    world.subscribe("http://127.0.0.1:9/").await;
    for table in ["timeline", "outbox", "inbox_messages"] {
        let email = format!("zq8marker.{table}@example.com");
        let named = |time| {
            let payload = json!({"message": MARKER});
            at(time, event("enquiry.submitted")).email(&email).name(MARKER).payload(payload)
        };
        let client = world.accept(named(BEFORE)).await["clientId"].clone();
        let session = world.database.begin(&format!("SELECT FROM {table} FOR UPDATE")).await;
        let sent = async {
            world.database.until_lock_wait_of("connectctl").await;
            // An older event is refused already, and a newer one is about the client that is being erased.
            assert_eq!(outcome(&world.result(named(BEFORE)).await), ("failed", "contact_erased"));
            assert_eq!(world.accept(named(AFTER)).await["clientId"], client);
            session.batch_execute("COMMIT").await.expect("a commit");
        };
        let (receipt, ()) = futures_util::join!(erase(&world.connectctl, &client), sent);
        for rows in ["timeline", "events", "outboundEvents"] {
            assert_eq!(receipt["removed"][rows], 2, "{rows} of {receipt}");
        }
        assert_eq!(tables_with(&world, MARKER).await, Vec::<String>::new());
    }
}

/// Starts an erasure that then waits for a lock of the session.
async fn waiting_erasure(world: &World, client: &Value, locked: &str) -> (Child, tokio_postgres::Client) {
    let session = world.database.begin(&format!("{locked} FOR UPDATE")).await;
    let command = world.connectctl.start(&["client", "erase", "--tenant", "acme", "--client", text(client), "--yes"]);
    world.database.until_lock_wait_of("connectctl").await;
    (command, session)
}

const SESSIONS: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'connectctl'";

/// More entries and leads than one step deletes.
const MANY_ROWS: &str = "
    INSERT INTO timeline SELECT (jsonb_populate_record(t, jsonb_build_object('event_id', 'many-' || n,
        'entry_id', '01900000-0000-7000-8000-' || lpad(n::text, 12, '0')))).*
    FROM timeline t, generate_series(1, 4500) n WHERE event_id = (SELECT min(event_id) FROM timeline);
    INSERT INTO leads SELECT (jsonb_populate_record(l, jsonb_build_object('enquiry_number', 'NYO-2001-' || n,
        'lead_id', gen_random_uuid()))).*
    FROM leads l, generate_series(1, 1200) n WHERE external_id IS NOT NULL";

#[tokio::test]
async fn an_erasure_is_committed_in_steps_and_one_that_was_killed_is_continued() {
    let world = World::start().await;
    let named = at(BEFORE, event("enquiry.submitted")).email("zq8marker@example.com").name(MARKER);
    let client = world.accept(named).await["clientId"].clone();
    let lead = json!({"contact": {"email": "zq8marker@example.com", "name": MARKER}, "externalId": MARKER});
    let posted = post_request(&world.key, "/leads", "key-1", &lead);
    for _ in 0..2 {
        assert_eq!(world.http().send(&posted).await.status, 201);
    }
    world.database.execute(MANY_ROWS).await;
    let rows = async |table: &str| world.database.count(&format!("SELECT count(*) FROM {table}")).await;
    let cases = [
        ("timeline", "SELECT FROM timeline WHERE event_id = 'many-4500'", 1..4502),
        ("leads", "SELECT FROM clients", 1..1202),
    ];
    for (table, locked, left) in cases {
        let (mut killed, session) = waiting_erasure(&world, &client, locked).await;
        killed.kill().await.expect("it is killed");
        session.batch_execute("COMMIT").await.expect("a commit");
        until_equal("its session has ended", 0, async || world.database.count(SESSIONS).await).await;
        let found = rows(table).await;
        assert!(left.contains(&found), "{found} rows of {table} are left");
    }
    let finding = until_found(&world.connectctl, &[], "warning", "erasures", text(&client)).await;
    let command = format!("connectctl client erase --tenant acme --client {}", text(&client));
    assert!(text(&finding["fix"]).ends_with(&command), "{finding}");
    let receipt = erase(&world.connectctl, &client).await;
    assert_eq!(receipt["removed"]["timeline"], 4502, "the steps of all three: {receipt}");
    assert_eq!(receipt["removed"]["leads"], 1202, "{receipt}");
    until_fixed(&world.connectctl, &[], "erasures", "").await;
    let again = world.http().send(&posted).await;
    assert_eq!(again.status, 401, "neither the response of before nor a new lead: {again:?}");
    assert_eq!(tables_with(&world, MARKER).await, Vec::<String>::new());
}

#[tokio::test]
async fn two_erasures_of_one_client_at_once_count_each_row_once() {
    let world = World::start().await;
    let client = world.accept(identified().email("zq8marker@example.com")).await["clientId"].clone();
    let session = world.database.begin("SELECT FROM timeline FOR UPDATE").await;
    let free = async {
        let waiting = "application_name = 'connectctl' AND wait_event_type = 'Lock'";
        world.database.until_sessions(waiting, 2).await;
        session.batch_execute("COMMIT").await.expect("a commit");
    };
    let (first, second) = (erase(&world.connectctl, &client), erase(&world.connectctl, &client));
    let (first, second, ()) = futures_util::join!(first, second, free);
    assert_eq!((&first["removed"]["timeline"], &second["removed"]["timeline"]), (&1.into(), &1.into()));
    assert_eq!(tables_with(&world, MARKER).await, Vec::<String>::new());
}

#[tokio::test]
async fn an_erasure_that_is_frozen_keeps_its_tenant_waiting_for_seconds() {
    let world = World::start().await;
    let client = world.accept(identified().email("ana@example.com")).await["clientId"].clone();
    let (mut frozen, session) = waiting_erasure(&world, &client, "SELECT FROM clients").await;
    let pid = frozen.id().expect("it runs");
    send_signal(pid, "STOP");
    session.batch_execute("COMMIT").await.expect("a commit");
    world.accept_with_retries(identified().email("ben@example.com")).await;
    send_signal(pid, "CONT");
    assert!(!frozen.wait().await.expect("it ends").success(), "its transaction was rolled back");
    assert_eq!(erase(&world.connectctl, &client).await["removed"]["timeline"], 1);
}

/// The units of all queues that found a lock.
async fn locked_units(world: &World) -> [f64; 3] {
    let metrics = world.workers[0].metrics().await;
    ["apply_unit", "apply_write", "apply_action"]
        .map(|name| metrics.sum("connect_db_transactions_total", &[("name", name), ("outcome", "locked")]))
}

#[tokio::test]
async fn other_tenants_do_not_wait_for_an_erasure_and_the_tenants_own_events_see_it() {
    let world = World::with().set("CONNECT_BACKLOG_TARGET", "5s").start().await;
    let other = world.add_tenant("other").await;
    let client = world.accept(identified().email("zq8marker@example.com")).await["clientId"].clone();
    // The erasure holds its lock and waits for the client's row.
    let session = world.database.begin("SELECT FROM clients FOR UPDATE").await;
    let post = |key: &ApiKey, number: usize| {
        let body = format!("{:WRITE_BYTES$}", format!(r#"{{"email":"cal.{number}@example.com"}}"#));
        key.records("POST", &records_target("/clients"), body).with("idempotency-key", format!("key-{number}"))
    };
    let open = |tenant: &str| {
        let fields = json!({"tenant": slug(tenant), "email": "dan@example.com", "name": "Dan"});
        act(&world, "open-lead", fields)
    };
    let sent = async {
        world.database.until_lock_wait_of("connectctl").await;
        let own = (0..WRITES).map(async |number| world.http().send(&post(&world.key, number)).await.status);
        let events = [
            identified().email("zq8marker@example.com"),
            at(AFTER, event("contact.identified")).email("zq8marker@example.com"),
        ];
        futures_util::join!(world.results(&events), join_all(own), open("acme"))
    };
    let others = async {
        eventually("the tenant's messages are put off", MAX_WAIT, async || {
            let units = locked_units(&world).await;
            if units.iter().all(|units| *units > 0.0) { Ok(()) } else { Err(format!("{units:?}")) }
        })
        .await;
        let waiting = (WRITES * WRITE_UNITS) as f64;
        world.ingests[0].until_sum("connect_backlog_units", &[("queue", "records")], waiting).await;
        // An older event about the same person: the erasure concerns one tenant.
        let event = identified().tenant("other").email("zq8marker@example.com");
        let response = world.http().send(&other.events(batch(&[event]))).await;
        assert_eq!(response.json()["results"][0]["status"], "accepted", "{response:?}");
        world.http().send(&post(&other, 0)).await.assert_status(201);
        open("other").await;
        session.batch_execute("COMMIT").await.expect("a commit");
    };
    let erased = erase(&world.connectctl, &client);
    let (_, (results, written, _), ()) = futures_util::join!(erased, sent, others);
    assert_eq!(results[0]["error"], "contact_erased", "{results:?}");
    assert_eq!(results[1]["status"], "accepted", "{results:?}");
    assert_ne!(results[1]["clientId"], client);
    assert_eq!(world.timeline(&results[1]["clientId"]).await.len(), 1);
    assert_eq!(written, [201; WRITES]);
    let clients = "SELECT count(*) FROM clients";
    assert_eq!(world.database.count(clients).await, 5 + WRITES as i64, "the other tenant has three");
}
