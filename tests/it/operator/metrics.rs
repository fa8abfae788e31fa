//! Metrics after traffic: the contract's names and labels, without personal data.

use serde_json::json;
use std::collections::BTreeSet;
use tests::event::batch;
use tests::{MAX_WAIT, Program, Samples, World, event, eventually};

/// Each metric with its labels; those of histograms beside `le` or `quantile`.
const OF_INGEST: &[(&str, &[&str])] = &[
    ("connect_http_requests_total", &["method", "route", "status"]),
    ("connect_http_request_duration_seconds", &["route"]),
    ("connect_auth_failures_total", &["reason"]),
    ("connect_publish_total", &["outcome", "queue"]),
    ("connect_reply_wait_seconds", &["queue"]),
    ("connect_events_accepted_total", &[]),
    ("connect_batch_events", &[]),
    ("connect_bundle_requests", &[]),
    ("connect_broker_connected", &[]),
    ("connect_build_info", &["version"]),
    ("connect_db_pool_size", &["pool"]),
    ("connect_db_pool_available", &["pool"]),
    ("connect_db_pool_waiting", &["pool"]),
];
const OF_WORKER: &[(&str, &[&str])] = &[
    ("connect_events_total", &["event_type", "status"]),
    ("connect_apply_duration_seconds", &["queue"]),
    ("connect_queue_lag_seconds", &["queue"]),
    ("connect_queue_messages_ready", &["queue"]),
    ("connect_queue_consumers", &["queue"]),
    ("connect_redelivered_total", &["queue"]),
    ("connect_broker_connected", &[]),
    ("connect_build_info", &["version"]),
    ("connect_db_pool_size", &["pool"]),
    ("connect_db_pool_available", &["pool"]),
    ("connect_db_pool_waiting", &["pool"]),
];

/// Waits until a program shows all of these metrics with these labels.
async fn until_shown(program: &Program, wanted: &[(&str, &[&str])]) -> Samples {
    eventually("all metrics are there", MAX_WAIT, async || {
        let samples = program.metrics().await;
        match wanted.iter().find_map(|(name, labels)| fault(&samples, name, labels)) {
            None => Ok(samples),
            Some(fault) => Err(fault),
        }
    })
    .await
}

fn fault(samples: &Samples, name: &str, labels: &[&str]) -> Option<String> {
    let found: Vec<BTreeSet<&str>> = samples
        .of(name)
        .map(|sample| {
            sample
                .labels
                .keys()
                .map(String::as_str)
                .filter(|label| !["le", "quantile"].contains(label))
                .collect()
        })
        .collect();
    let wanted: BTreeSet<&str> = labels.iter().copied().collect();
    if found.is_empty() {
        return Some(format!("no {name}"));
    }
    found.iter().find(|found| **found != wanted).map(|found| format!("{name} has the labels {found:?}"))
}

/// A world with traffic of every kind, a redelivery among it.
async fn busy() -> World {
    let mut world = World::start().await;
    // One after the other: the queue delivers messages to its consumers in the order in which they subscribed.
    world.workers[0].until_ready().await;
    world.add_worker().await;
    world.workers[1].until_ready().await;
    world.workers[1].signal("STOP");
    let requests = (0..20).map(async |i| {
        let events = [
            event("enquiry.submitted").email(&format!("{i}@example.com")),
            event("contact.updated").email("nobody@example.com"),
        ];
        world.http().send(&world.key.events(batch(&events))).await
    });
    let requests = futures_util::future::join_all(requests);
    let kill = async {
        // The unacknowledged messages of the stopped worker are redelivered to the other.
        eventually("the stopped worker holds messages", MAX_WAIT, async || {
            match world.database.count("SELECT count(*) FROM leads").await {
                0 => Err("nothing is applied yet".to_owned()),
                _ => Ok(()),
            }
        })
        .await;
        world.workers[1].signal("KILL");
    };
    futures_util::join!(requests, kill);
    world.workers.truncate(1);
    let request = world.key.events(batch(&[event("contact.identified").email("0@example.com")]));
    for expected in [200, 401] {
        assert_eq!(world.http().send(&request).await.status, expected);
    }
    assert_eq!(world.send(&[]).await.status, 400);
    world
}

#[tokio::test]
async fn exports_the_contracts_metrics_and_labels_after_traffic() {
    let world = busy().await;
    let ingest = until_shown(&world.ingests[0], OF_INGEST).await;
    let route = |status| ingest.sum("connect_http_requests_total", &[("method", "POST"), ("status", status)]);
    assert_eq!((route("200"), route("401"), route("400")), (21.0, 1.0, 1.0));
    assert_eq!(ingest.sum("connect_auth_failures_total", &[]), 1.0);
    assert_eq!(ingest.sum("connect_bundle_requests_sum", &[]), 21.0);
    let messages = ingest.sum("connect_bundle_requests_count", &[]);
    assert_eq!(ingest.sum("connect_publish_total", &[("queue", "events")]), messages);
    assert_eq!(ingest.sum("connect_batch_events_sum", &[]), 41.0);
    assert_eq!(ingest.sum("connect_broker_connected", &[]), 1.0);

    let worker = until_shown(&world.workers[0], OF_WORKER).await;
    let events = |event_type, status| {
        worker.sum("connect_events_total", &[("event_type", event_type), ("status", status)])
    };
    assert!(events("enquiry.submitted", "accepted") > 0.0);
    assert!(events("contact.updated", "failed") > 0.0);
    eventually("nothing is ready", MAX_WAIT, async || {
        match world.workers[0].metrics().await.sum("connect_queue_messages_ready", &[("queue", "events")]) {
            0.0 => Ok(()),
            ready => Err(ready.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn labels_hold_no_ids_or_personal_data_and_logs_no_personal_data_or_secrets() {
    let world = World::start().await;
    let email = "very.private@example.com";
    let person =
        event("enquiry.submitted").id("private-event").email(email).name("Private Name").phone("+49 555 777");
    let result = world
        .accept(person.payload(json!({"message": "private words", "externalLeadId": "private-lead"})))
        .await;
    let strange = world.key.events("{}").replacing("x-connect-key", "ck_stranger");
    assert_eq!(world.http().send(&strange).await.status, 401);
    assert_eq!(world.send(&[event("private.type").email("not an address")]).await.status, 400);
    let unknown = world.key.records("GET", "/private/path?email=very.private@example.com", "");
    assert_eq!(world.http().send(&unknown).await.status, 404);

    let persons = [
        email,
        "Private Name",
        "555 777",
        "private words",
        "private-lead",
        "not an address",
        "/private/path",
    ];
    let ids =
        [world.key.prefix.as_str(), "ck_stranger", "acme", "private-event", tests::text(&result["clientId"])];
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

#[tokio::test]
async fn unknown_paths_and_methods_create_no_series() {
    let world = World::start().await;
    let series = async || {
        let samples = world.ingests[0].metrics().await;
        samples.of("connect_http_requests_total").map(|sample| sample.labels.clone()).collect::<BTreeSet<_>>()
    };
    for (method, path) in [("GET", "/warm-up"), ("BREW", "/warm-up")] {
        world.http().send(&world.key.records(method, path, "")).await;
    }
    let before = series().await;
    for i in 0..50 {
        world.http().send(&world.key.records("GET", &format!("/made-up/{i}"), "")).await;
        world.http().send(&world.key.records(&format!("BREW{i}"), &format!("/made-up/{i}"), "")).await;
    }
    assert_eq!(series().await, before);
}
