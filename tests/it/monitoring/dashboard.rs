//! Each query of the dashboard has data when the programs are busy, and what alerts and the runbook rely on is exported
//! at zero and counts.

use super::{files, repository_text};
use crate::records::records_target;
use common::broker::CallError;
use common::http::ConnectionRefusal;
use dispatcher::send::Outcome;
use ingest::auth::AuthFailure;
use ingest::refusal::OverloadReason;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Instant;
use tests::{
    Behavior, HttpRequest, MAX_WAIT, Program, Prometheus, QueuedMessage, Receiver, World, batch, event, eventually, now,
};
use uuid::Uuid;

/// Panels without data in ordinary traffic. The other panels must have data without the `or vector(..)` of their query.
const RARE: [&str; 2] = ["Alerts firing", "Spans of traces"];
/// The panel that is empty when all is well.
const FIRING: &str = "Which alerts fire";

/// The queries of a panel, with what Grafana puts in place of its variables.
fn queries(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| tests::text(&target["expr"]).replace("$__rate_interval", "10s")).collect()
}

#[tokio::test]
async fn every_panels_query_has_data_when_the_programs_are_busy() {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let builder = builder.set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms").set("CONNECT_WEBHOOK_ATTEMPTS", "3");
    let builder = builder.set("CONNECT_RETENTION_DELIVERIES", "30d");
    let world = builder.start().await;
    let receiver = Receiver::http();
    receiver.respond("/down", Behavior::status(503));
    for path in ["/hooks", "/down"] {
        let url = receiver.url(path);
        world.subscribe(&url).await;
    }
    let prometheus = Prometheus::start().await;
    prometheus.watch(&world);

    let looking = async {
        let dashboard: Value =
            serde_json::from_str(&repository_text("ops/grafana/connect.json")).expect("a dashboard in JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            let title = tests::text(&panel["title"]);
            for query in queries(panel).iter().filter(|_| title != FIRING) {
                let query = if RARE.contains(&title) { query } else { without_alternative(query) };
                has_data(&prometheus, title, query).await;
            }
        }
    };
    tokio::select! {
        () = send_everything(&world) => {}
        () = looking => {}
    }
}

/// Sends events, requests to the records API and advisor actions, one after the other, whatever the response.
async fn send_everything(world: &World) {
    let key = &world.key;
    for round in 0_u64.. {
        let email = format!("traveller{}@example.com", round % 500);
        let kinds = ["contact.identified", "trip.planning_started", "quote.requested", "enquiry.submitted"];
        let unknown = event("contact.updated").external_id("nobody").name("Nobody");
        let events = batch(&[&kinds.map(|kind| event(kind).email(&email))[..], &[unknown]].concat());
        send(world, &key.events(events.clone())).await;
        send(world, &key.events(events).replacing("x-connect-tenant", "another")).await;
        let body = json!({"contact": {"email": email, "name": "Cara"}, "destination": "Lisbon"}).to_string();
        let create = key.records("POST", &records_target("/leads"), body);
        let lead = send(world, &create.with("idempotency-key", round.to_string())).await["data"].clone();
        let target = records_target(&format!("/leads/{}", lead["id"].as_str().unwrap_or("none")));
        send(world, &key.records("GET", &target, "")).await;
        let change = || key.records("PATCH", &target, json!({"stage": "follow_up"}).to_string());
        send(world, &change()).await;
        send(world, &change().with("if-match", "\"2020-01-01T00:00:00.000Z\"")).await;
        let action = json!({"action": "stage", "tenant": "acme", "lead": lead["id"], "stage": "negotiation"});
        let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
        world.queues.publish_message("crm", &message).await;
    }
}

/// The response's body; null when there is none.
async fn send(world: &World, request: &HttpRequest) -> Value {
    let response = world.http().try_send(request).await;
    response.ok().and_then(|response| serde_json::from_slice(&response.body).ok()).unwrap_or_default()
}

/// A query without the value that it gives where there is no data.
fn without_alternative(query: &str) -> &str {
    query.split_once(" or vector(").map_or(query, |(query, _)| query)
}

async fn has_data(prometheus: &Prometheus, title: &str, query: &str) {
    eventually(&format!("{title}: {query} has data"), MAX_WAIT, async || {
        let series = prometheus.query(query).await;
        if series.iter().any(|series| series.value.is_finite()) { Ok(()) } else { Err(format!("{series:?}")) }
    })
    .await;
}

/// The operations of ingest that the alerting rules and their tests name.
fn operations_of_rules() -> BTreeSet<String> {
    let files = files("ops/prometheus/rules", "yml").into_iter().chain(files("ops/prometheus/tests", "yml"));
    let texts: String = files.map(|file| std::fs::read_to_string(file).expect("a file")).collect();
    let selectors = texts.split("operation=").skip(1).filter_map(|rest| rest.split('"').nth(1));
    selectors.flat_map(|names| names.split('|')).map(str::to_owned).collect()
}

/// Checks that a counter is exported at 0 for each value of a label.
async fn assert_shown(program: &Program, counter: &str, label: &str, values: &[&str]) {
    let samples = program.metrics().await;
    for value in values {
        let found = samples.of(counter).find(|sample| sample.labels[label] == *value);
        assert_eq!(found.map(|sample| sample.value), Some(0.0), "{counter} {value}");
    }
}

#[tokio::test]
async fn counters_are_exported_at_zero_before_they_count() {
    let world = World::with().dispatchers(1).start().await;
    let [ingest, worker, dispatcher] = [&world.ingests, &world.workers, &world.dispatchers].map(|all| &all[0]);
    for program in [ingest, worker, dispatcher] {
        program.until_ready().await;
    }
    let failures: Vec<_> = AuthFailure::ALL.iter().map(|failure| failure.as_str()).collect();
    assert_shown(ingest, "connect_auth_failures_total", "reason", &failures).await;
    let reasons: Vec<_> = OverloadReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert_shown(ingest, "connect_overloaded_total", "reason", &reasons).await;
    let refusals: Vec<_> = ConnectionRefusal::ALL.iter().map(|refusal| refusal.as_str()).collect();
    assert_shown(ingest, "connect_http_connections_refused_total", "reason", &refusals).await;
    assert_shown(ingest, "connect_publish_total", "outcome", &CallError::ALL.map(CallError::outcome)).await;
    assert_shown(ingest, "connect_http_requests_total", "status", &["200", "201", "500", "503"]).await;
    let operations = operations_of_rules();
    let operations: Vec<_> = operations.iter().map(String::as_str).collect();
    assert!(operations.contains(&"replay store"), "{operations:?}");
    assert_shown(ingest, "connect_outage_failures_total", "operation", &operations).await;
    let reasons = ["metadata", "body", "internal", "forged"];
    assert_shown(worker, "connect_dead_lettered_total", "reason", &reasons).await;
    assert_shown(worker, "connect_events_total", "status", &["accepted", "duplicate", "failed"]).await;
    for counter in ["connect_redelivered_total", "connect_queue_lag_seconds_count"] {
        assert_shown(worker, counter, "queue", &["events", "records", "crm"]).await;
    }
    assert_shown(dispatcher, "connect_webhook_attempts_total", "outcome", &Outcome::ALL.map(Outcome::as_str)).await;
    assert_shown(dispatcher, "connect_webhook_retries_total", "attempt", &["2", "6"]).await;
    assert_shown(dispatcher, "connect_publish_total", "queue", &["webhooks.dead"]).await;
    let dead = dispatcher.metrics().await.of("connect_webhook_dead_total").map(|sample| sample.value).sum::<f64>();
    assert_eq!(dead, 0.0);
}

#[tokio::test]
async fn logs_refused_credentials_at_a_limited_rate_and_never_a_secret() {
    let world = World::with().join().await;
    let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
    let begun = Instant::now();
    for _ in 0..20 {
        let forged = request.clone().replacing("x-connect-signature", format!("t={},v1={}", now(), "0".repeat(64)));
        world.http().send(&forged).await.assert_error(401, "unauthorized");
        let misplaced = request.clone().replacing("x-connect-key", &world.key.secret);
        world.http().send(&misplaced).await.assert_error(401, "unauthorized");
    }
    let seconds = begun.elapsed().as_secs() + 2;
    let ingest = &world.ingests[0];
    eventually("the lines are there", MAX_WAIT, async || {
        let logs = ingest.logs();
        let lines = |reason: &str, key: &str| {
            let said = format!(
                "\"message\":\"authentication refused\",\"reason\":\"{reason}\",\"code\":\"unauthorized\"{key}"
            );
            logs.matches(&said).count() as u64
        };
        assert!(!logs.contains(&world.key.secret[..8]), "{logs}");
        let known = format!(",\"tenant\":\"{}\",\"key\":\"{}\"", world.key.tenant, world.key.prefix);
        let counts = [lines("mismatch", &known), lines("unknown_key", ",\"target\"")];
        if counts.iter().all(|count| (1..=seconds).contains(count)) { Ok(()) } else { Err(format!("{counts:?}")) }
    })
    .await;
    eventually("a line counts those before it", MAX_WAIT, async || {
        let misplaced = request.clone().replacing("x-connect-key", &world.key.secret);
        world.http().send(&misplaced).await.assert_error(401, "unauthorized");
        let logs = ingest.logs();
        let is_counted = logs.contains("\"message\":\"authentication refused\",\"suppressed\":");
        if is_counted { Ok(()) } else { Err(logs) }
    })
    .await;
}
