//! What a program shows: the operator port (`/livez`, `/readyz`, which is 503 while every request would be refused),
//! metrics without personal data, and a log, without which it works as well.

use super::SERVICES;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::dedicated_servers::Broker;
use tests::{
    Behavior, CommandOutput, HttpClient, HttpRequest, MAX_WAIT, Program, Receiver, World, batch, event, eventually,
};

/// The response of a program's operator's port to a request without a body.
async fn ask(program: &Program, method: &str, path: &str) -> tests::HttpResponse {
    HttpClient::for_other_server(program.operator_address()).send(&HttpRequest::new(method, path, "")).await
}

#[tokio::test]
async fn a_healthy_program_is_live_and_ready_and_its_port_serves_nothing_else() {
    let world = World::with().through_proxies().dispatchers(1).start().await;
    let programs = || world.ingests.iter().chain(&world.workers).chain(&world.dispatchers);
    for program in programs() {
        program.until_ready().await;
        for path in ["/livez", "/readyz", "/metrics"] {
            let (get, head) = (ask(program, "GET", path).await, ask(program, "HEAD", path).await);
            assert_eq!((get.status, head.status, head.body.len()), (200, 200, 0), "{path}");
            assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        }
        for method in ["POST", "PUT", "DELETE"] {
            assert_eq!(ask(program, method, "/livez").await.status, 405, "{method}");
        }
        for path in ["/", "/metrics/x", "/debug", tests::EVENTS] {
            let status = ask(program, "GET", path).await.status;
            assert!((400..500).contains(&status), "{path}: {status}");
        }
        let says = ask(program, "GET", "/readyz").await.json();
        assert_eq!((&says["ready"], &says["checks"]["postgres"]), (&true.into(), &true.into()), "{says}");
    }
    world.proxies().broker.reset_connections();
    // The dispatcher does not need the broker.
    for program in world.ingests.iter().chain(&world.workers) {
        program.until_unready().await;
        assert_eq!(ask(program, "HEAD", "/livez").await.status, 200);
        assert_eq!(ask(program, "HEAD", "/readyz").await.status, 503);
    }
}

#[tokio::test]
async fn a_port_in_use_ends_the_program_naming_the_setting() {
    let world = World::shared().await;
    let taken = world.http().address().to_string();
    for (program, setting) in [
        ("connect-ingest", "CONNECT_INGEST_ADDR"),
        ("connect-ingest", "CONNECT_METRICS_ADDR"),
        ("connect-worker", "CONNECT_METRICS_ADDR"),
    ] {
        let mut settings = world.settings().to_vec();
        settings.retain(|(name, _)| name != setting);
        settings.push((setting.to_owned(), taken.clone()));
        let ran = tests::CommandOutput::of(program, &[], &settings).await;
        assert_eq!(ran.code, Some(1), "{program} {setting}: {ran:?}");
        let last = ran.errors.lines().last().unwrap_or_default();
        assert!(last.contains(setting), "{program} {setting}: {last}");
    }
}

pub(super) const OTHER_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

/// Waits until exactly the checks in `missing` fail.
pub(super) async fn until_failing_checks(program: &Program, missing: &[&str]) {
    eventually(&format!("only {missing:?} is missing"), MAX_WAIT, async || {
        let says = program.until_unready().await;
        let checks = says["checks"].as_object().expect("checks");
        let lacking: Vec<&str> =
            checks.iter().filter(|(_, there)| **there == Value::Bool(false)).map(|(name, _)| name.as_str()).collect();
        if lacking == missing { Ok(()) } else { Err(says.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn an_ingest_whose_replay_store_cannot_be_written_is_not_ready() {
    let world = World::with().workers(0).start().await;
    let (rename, execute) =
        ("ALTER TABLE replay_entries RENAME COLUMN", "EXECUTE ON FUNCTION make_replay_partition(bigint)");
    for (breaks, fixes) in [
        (format!("{rename} mac TO other"), format!("{rename} other TO mac")),
        (
            "REVOKE INSERT ON replay_entries FROM connect_test_ingest".to_owned(),
            "GRANT INSERT ON replay_entries TO connect_test_ingest".to_owned(),
        ),
        (format!("REVOKE {execute} FROM connect_test_ingest"), format!("GRANT {execute} TO connect_test_ingest")),
    ] {
        world.database.execute(&breaks).await;
        until_failing_checks(&world.ingests[0], &["replay_store"]).await;
        world.database.execute(&fixes).await;
        world.ingests[0].until_ready().await;
    }
}

#[tokio::test]
async fn a_program_whose_publishes_are_blocked_is_not_ready_and_keeps_working() {
    let broker = Broker::start().await;
    let mut world = World::with()
        .on_broker(broker.url())
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_REPLY_TIMEOUT", "2s")
        .start()
        .await;
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500));
    world.subscribe(&receiver.url("/hooks")).await;
    let enquiry = |email: &str| event("enquiry.submitted").email(email).name("Ana");
    world.until_ready().await;
    world.accept_with_retries(enquiry("ana@example.com")).await;
    world.end_workers().await;
    world.send(&[enquiry("bo@example.com")]).await.assert_error(503, "processing_timeout");
    broker.allow_memory(1_000_000).await;

    let worker = Program::worker(world.settings()).await;
    until_failing_checks(&worker, &["publishing"]).await;
    assert_eq!(worker.operator_get("/livez").await.expect("it lives").status, 200);
    assert_eq!(world.pipeline(&[]).await.len(), 2, "the queue is worked off");
    // No webhook waits for RabbitMQ.
    world.add_dispatcher().await;
    world.dispatchers[0].until_ready().await;
    receiver.wait_for(1).await;

    broker.allow_memory(2_000_000_000).await;
    worker.until_ready().await;
}

#[tokio::test]
async fn requests_and_events_are_counted_by_their_outcome_without_personal_data() {
    let world = World::start().await;
    for i in 0..3 {
        let events = [
            event("enquiry.submitted").email(&format!("{i}@example.com")),
            event("contact.updated").email("nobody@example.com"),
        ];
        assert_eq!(world.send(&events).await.status, 200);
    }
    let request = world.key.events(batch(&[event("contact.identified").email("0@example.com")]));
    for expected in [200, 401] {
        assert_eq!(world.http().send(&request).await.status, expected);
    }
    assert_eq!(world.send(&[]).await.status, 400);

    let ingest = world.ingests[0].metrics().await;
    let route = |status| ingest.sum("connect_http_requests_total", &[("method", "POST"), ("status", status)]);
    assert_eq!((route("200"), route("401"), route("400")), (4.0, 1.0, 1.0));
    assert_eq!(ingest.sum("connect_auth_failures_total", &[]), 1.0);
    assert_eq!(ingest.sum("connect_batch_events_sum", &[]), 7.0);
    assert_eq!(ingest.sum("connect_events_accepted_total", &[]), 7.0);
    let worker = world.workers[0].metrics().await;
    for (event_type, status) in [("enquiry.submitted", "accepted"), ("contact.updated", "failed")] {
        let labels = [("event_type", event_type), ("status", status)];
        assert_eq!(worker.sum("connect_events_total", &labels), 3.0, "{event_type}");
    }

    // Unknown paths and methods create no series of their own.
    let series = async || {
        let samples = world.ingests[0].metrics().await;
        samples.of("connect_http_requests_total").map(|sample| sample.labels.clone()).collect::<BTreeSet<_>>()
    };
    let send = async |method: &str, path: &str| {
        world.http().send(&world.key.records(method, path, "")).await;
    };
    send("GET", "/made-up").await;
    send("BREW", "/made-up").await;
    let before = series().await;
    for i in 0..10 {
        send("GET", &format!("/made-up/{i}")).await;
        send(&format!("BREW{i}"), &format!("/made-up/{i}")).await;
    }
    assert_eq!(series().await, before);

    // Labels have no ids or personal data, and logs no personal data or secrets.
    let email = "very.private@example.com";
    let person = event("enquiry.submitted").id("private-event").email(email).name("Private Name").phone("+49 555 777");
    let result =
        world.accept(person.payload(json!({"message": "private words", "externalLeadId": "private-lead"}))).await;
    let strange = world.key.events("{}").replacing("x-connect-key", "ck_stranger");
    assert_eq!(world.http().send(&strange).await.status, 401);
    assert_eq!(world.send(&[event("private.type").email("not an address")]).await.status, 400);
    let unknown = world.key.records("GET", "/private/path?email=very.private@example.com", "");
    assert_eq!(world.http().send(&unknown).await.status, 404);

    let persons =
        [email, "Private Name", "555 777", "private words", "private-lead", "not an address", "/private/path"];
    let ids = [world.key.prefix.as_str(), "ck_stranger", "acme", "private-event", tests::text(&result["clientId"])];
    for program in world.ingests.iter().chain(&world.workers) {
        for sample in program.metrics().await.all() {
            for value in sample.labels.values() {
                let held = persons.iter().chain(&ids).find(|private| value.contains(*private));
                assert_eq!(held, None, "{sample:?}");
            }
        }
        let logs = program.logs();
        let secrets = [world.key.secret.as_str(), tests::MASTER_KEY];
        let held = persons.iter().chain(&secrets).find(|private| logs.contains(*private));
        assert_eq!(held, None, "{logs}");
    }
}

/// Starts `$0` with a log that takes nothing, waits until it is ready, asks it to end, and ends as it does.
const SCRIPT: &str = "
    address=127.0.0.1:$($CONNECT_SERVICES free-port)
    export CONNECT_METRICS_ADDR=$address CONNECT_INGEST_ADDR=127.0.0.1:0
    start &
    until curl --silent --fail --output /dev/null http://$address/readyz; do
        kill -0 $! || wait $!
        sleep 0.05
    done
    kill -TERM $!
    wait $!";

#[tokio::test]
async fn a_full_or_closed_log_does_not_affect_a_program() {
    let world = World::with().ingests(0).workers(0).start().await;
    let services = concat!(env!("CARGO_MANIFEST_DIR"), "/../ops/local/services.sh");
    let mut settings = world.settings().to_vec();
    settings.retain(|(name, _)| !matches!(name.as_str(), "CONNECT_METRICS_ADDR" | "CONNECT_INGEST_ADDR"));
    settings.extend(
        [("CONNECT_SERVICES", services), ("RUST_LOG", "debug")]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
    );
    for service in SERVICES {
        // A full disk; a reader that has gone away.
        for log in ["2>/dev/full", "2> >(exec true)"] {
            let ran = CommandOutput::bash(&format!("start() {{ exec {service} {log}; }}{SCRIPT}"), &settings).await;
            assert_eq!(ran.code, Some(0), "{service} {log}: {ran:?}");
        }
    }
    let ran = CommandOutput::bash("exec connect-worker 2>/dev/full", &[]).await;
    assert_eq!(ran.code, Some(1), "a missing setting, and a log that cannot be written: {ran:?}");
}
