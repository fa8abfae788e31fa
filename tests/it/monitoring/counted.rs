//! Counters that alerts and the runbook rely on are exported at zero and count.

use common::broker::CallError;
use common::http::ConnectionRefusal;
use dispatcher::send::Outcome;
use ingest::auth::AuthFailure;
use ingest::overload::OverloadReason;
use std::time::Instant;
use tests::event::batch;
use tests::{MAX_WAIT, Program, World, event, eventually, now};

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
    let [ingest, worker, dispatcher] =
        [&world.ingests, &world.workers, &world.dispatchers].map(|all| &all[0]);
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
    assert_shown(ingest, "connect_outage_failures_total", "operation", &["replay store", "keys"]).await;
    let reasons = ["metadata", "body", "internal", "forged"];
    assert_shown(worker, "connect_dead_lettered_total", "reason", &reasons).await;
    assert_shown(worker, "connect_events_total", "status", &["accepted", "duplicate", "failed"]).await;
    for counter in ["connect_redelivered_total", "connect_queue_lag_seconds_count"] {
        assert_shown(worker, counter, "queue", &["events", "records", "crm"]).await;
    }
    assert_shown(dispatcher, "connect_webhook_attempts_total", "outcome", &Outcome::ALL.map(Outcome::as_str))
        .await;
    assert_shown(dispatcher, "connect_webhook_retries_total", "attempt", &["2", "6"]).await;
    assert_shown(dispatcher, "connect_publish_total", "queue", &["webhooks.dead"]).await;
    let dead =
        dispatcher.metrics().await.of("connect_webhook_dead_total").map(|sample| sample.value).sum::<f64>();
    assert_eq!(dead, 0.0);
}

#[tokio::test]
async fn logs_refused_credentials_at_a_limited_rate_and_never_a_secret() {
    let world = World::with().join().await;
    let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
    let begun = Instant::now();
    for _ in 0..20 {
        let forged =
            request.clone().replacing("x-connect-signature", format!("t={},v1={}", now(), "0".repeat(64)));
        world.http().send(&forged).await.assert_error(401, "unauthorized");
        let misplaced = request.clone().replacing("x-connect-key", &world.key.secret);
        world.http().send(&misplaced).await.assert_error(401, "unauthorized");
    }
    let seconds = begun.elapsed().as_secs() + 2;
    let ingest = &world.ingests[0];
    eventually("the lines are there", MAX_WAIT, async || {
        let logs = ingest.logs();
        let lines = |reason: &str, key: &str| {
            let said = format!("\"message\":\"authentication refused\",\"reason\":\"{reason}\"{key}");
            logs.matches(&said).count() as u64
        };
        assert!(!logs.contains(&world.key.secret[..8]), "{logs}");
        let known = format!(",\"key\":\"{}\"", world.key.prefix);
        let counts = [lines("mismatch", &known), lines("unknown_key", ",\"target\"")];
        if counts.iter().all(|count| (1..=seconds).contains(count)) {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
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
