//! Metrics after traffic, without personal data.

use serde_json::json;
use std::collections::BTreeSet;
use tests::event::batch;
use tests::{World, event};

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
