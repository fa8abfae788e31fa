//! What alerts and the runbook rely on is counted, and shown before there is something to count.

use common::broker::CallError;
use dispatcher::send::Outcome;
use ingest::auth::Failure;
use ingest::bound::Bound;
use ingest::connections::ConnectionRefusal;
use std::time::Instant;
use tests::event::batch;
use tests::{Behaviour, PATIENCE, Program, Receiver, World, event, eventually, now};

/// Counters at 0, each with a label that tells it from the others.
async fn assert_shown(program: &Program, counter: &str, label: &str, values: &[&str]) {
    let samples = program.metrics().await;
    for value in values {
        let found = samples.of(counter).find(|sample| sample.labels[label] == *value);
        assert_eq!(found.map(|sample| sample.value), Some(0.0), "{counter} {value}");
    }
}

#[tokio::test]
async fn counters_are_there_before_there_is_something_to_count() {
    let world = World::with().dispatchers(1).start().await;
    let [ingest, worker, dispatcher] =
        [&world.ingests, &world.workers, &world.dispatchers].map(|all| &all[0]);
    for program in [ingest, worker, dispatcher] {
        program.until_ready().await;
    }
    assert_shown(ingest, "connect_auth_failures_total", "reason", &Failure::ALL.map(Failure::as_str)).await;
    assert_shown(ingest, "connect_refused_total", "reason", &Bound::ALL.map(Bound::as_str)).await;
    let refusals = ConnectionRefusal::ALL.map(ConnectionRefusal::as_str);
    assert_shown(ingest, "connect_http_connections_refused_total", "reason", &refusals).await;
    assert_shown(ingest, "connect_publish_total", "outcome", &CallError::ALL.map(CallError::outcome)).await;
    assert_shown(ingest, "connect_http_requests_total", "status", &["200", "201", "500", "503"]).await;
    assert_shown(ingest, "connect_outage_failures_total", "what", &["replay store", "key look-up"]).await;
    let reasons = ["metadata", "body", "internal", "forged"];
    assert_shown(worker, "connect_dead_lettered_total", "reason", &reasons).await;
    assert_shown(dispatcher, "connect_dead_lettered_total", "reason", &["metadata", "forged"]).await;
    assert_shown(worker, "connect_events_total", "status", &["accepted", "duplicate", "failed"]).await;
    for counter in ["connect_redelivered_total", "connect_queue_lag_seconds_count"] {
        assert_shown(worker, counter, "queue", &["events", "records", "crm"]).await;
        assert_shown(dispatcher, counter, "queue", &["webhooks"]).await;
    }
    assert_shown(dispatcher, "connect_webhook_attempts_total", "outcome", &Outcome::ALL.map(Outcome::as_str))
        .await;
    assert_shown(dispatcher, "connect_webhook_retries_total", "attempt", &["2", "6"]).await;
    assert_shown(dispatcher, "connect_publish_total", "queue", &["webhooks", "webhooks.retry"]).await;
    let dead =
        dispatcher.metrics().await.of("connect_webhook_dead_total").map(|sample| sample.value).sum::<f64>();
    assert_eq!(dead, 0.0);
}

#[tokio::test]
async fn who_is_refused_for_want_of_room_is_counted_by_its_bound() {
    let builder = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "6s");
    let world = builder.set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "1").start().await;
    let contact = || [event("contact.identified").email("ana@example.com")];
    let (events, more) = (contact(), contact());
    let answers = futures_util::join!(world.send(&events), world.send(&more));
    assert_eq!((answers.0.status, answers.1.status), (503, 503));
    let counted = world.ingests[0].metrics().await;
    assert_eq!(counted.sum("connect_refused_total", &[("reason", "in_flight_per_tenant")]), 1.0);
    assert_eq!(counted.sum("connect_refused_total", &[]), 1.0);
    assert_eq!(counted.sum("connect_publish_total", &[("outcome", "no_answer")]), 1.0);
}

#[tokio::test]
async fn waits_between_attempts_are_counted_by_the_queue_that_they_wait_in() {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let world = builder.set("CONNECT_WEBHOOK_BACKOFF_BASE", "5m").start().await;
    let receiver = Receiver::http();
    receiver.answer_all(Behaviour::status(500));
    let url = receiver.url("/hooks");
    world.connectctl.json(&["subscription", "create", "--tenant", "acme", "--url", &url]).await;
    world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    let first = [("queue", "webhooks.retry.1")];
    eventually("the wait is counted", PATIENCE, async || {
        let waiting = f64::from(world.queues.depth("webhooks.retry.1").await);
        let counted = world.dispatchers[0].metrics().await.sum("connect_queue_messages_delayed", &first);
        if waiting > 0.0 && counted == waiting { Ok(()) } else { Err(format!("{counted} of {waiting}")) }
    })
    .await;
    assert!(world.dispatchers[0].metrics().await.sum("connect_queue_max_length", &first) > 0.0);
}

#[tokio::test]
async fn whose_credentials_are_refused_is_logged_now_and_then_and_a_secret_never() {
    let world = World::with().workers(0).start().await;
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
    eventually("the lines are there", PATIENCE, async || {
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
    eventually("a line counts those before it", PATIENCE, async || {
        let misplaced = request.clone().replacing("x-connect-key", &world.key.secret);
        world.http().send(&misplaced).await.assert_error(401, "unauthorized");
        let logs = ingest.logs();
        let is_counted = logs.contains("\"message\":\"authentication refused\",\"suppressed\":");
        if is_counted { Ok(()) } else { Err(logs) }
    })
    .await;
}
