//! The batch result (specification: Batch result; D7, D8).

use crate::connectctl::fields;
use serde_json::{Value, json};
use tests::{Event, World, event};

fn ana(event_type: &str) -> Event {
    event(event_type).email("ana@example.com")
}

fn statuses(response: &Value) -> Vec<&str> {
    let results = response["results"].as_array().expect("results").iter();
    results.map(|result| tests::text(&result["status"])).collect()
}

#[tokio::test]
async fn results_follow_the_order_of_the_batch_and_are_counted() {
    let world = World::shared().await;
    let events = [
        ana("contact.identified").id("z"),
        event("contact.updated").id("a").email("nobody@example.com"),
        ana("enquiry.submitted").id("m"),
        ana("contact.identified").id("z"),
        ana("contact.updated").id("b").name("Ana"),
    ];
    let response = world.send(&events).await;
    assert_eq!(response.header("content-type"), "application/json");
    let response = response.json();
    let ids: Vec<_> =
        response["results"].as_array().expect("results").iter().map(|r| tests::text(&r["eventId"])).collect();
    assert_eq!(ids, ["z", "a", "m", "z", "b"]);
    assert_eq!(statuses(&response), ["accepted", "failed", "accepted", "duplicate", "accepted"]);
    let expected = (&json!(3), &json!(1), &json!(1));
    assert_eq!((&response["accepted"], &response["duplicate"], &response["failed"]), expected);
    assert_eq!(fields(&response), ["accepted", "duplicate", "failed", "results"]);
}

#[tokio::test]
async fn a_result_has_only_the_fields_that_apply() {
    let world = World::shared().await;
    let failed = world.result(event("contact.updated").email("nobody@example.com")).await;
    assert_eq!(fields(&failed), ["error", "eventId", "status"]);
    let known = world.result(ana("contact.identified")).await;
    assert_eq!(fields(&known), ["clientId", "eventId", "status"]);
    let opened = world.result(ana("enquiry.submitted")).await;
    assert_eq!(fields(&opened), ["clientId", "eventId", "leadId", "status", "tripId"]);
    let warned = world.result(ana("traveller.discovery_upserted").payload(json!({"essence": 5}))).await;
    let expected = "clientId eventId leadId status travellerDiscovery tripId warningDetails warnings";
    assert_eq!(fields(&warned).join(" "), expected);
    let reason = "must be a text of at most 10000 characters";
    let detail = json!({"warning": warned["warnings"][0], "reason": reason});
    assert_eq!(warned["warningDetails"], json!([detail]), "{warned}");
}

#[tokio::test]
async fn a_duplicate_returns_the_original_ids_and_warnings_and_has_no_second_effect() {
    let world = World::shared().await;
    world.accept(event("contact.identified").external_id("p-1")).await;
    let events = [
        ana("contact.identified").id("e-1").name("Ana").external_id("p-1"),
        ana("enquiry.submitted").id("e-2").payload(json!({"paxCount": -1, "message": "Hello"})),
        ana("traveller.discovery_upserted").id("e-3").payload(json!({"discovery": {"pax": 2}, "essence": 5})),
        ana("booking.abandoned").id("e-4"),
        ana("booking.completed").id("e-5").payload(json!({"bookingRef": "BR-1"})),
    ];
    let first = world.results(&events).await;
    let rows = async || {
        let mut counts = Vec::new();
        let tables = "clients leads trips timeline inbox_messages invoices notifications outbox discoveries";
        for table in tables.split(' ') {
            counts.push((table, world.database.count(&format!("SELECT count(*) FROM {table}")).await));
        }
        counts
    };
    let before = (rows().await, world.pipeline(&[]).await);
    for again in [events.to_vec(), events.iter().rev().cloned().collect()] {
        let response = world.send(&again).await.json();
        assert_eq!(response["duplicate"], 5, "{response}");
        for result in response["results"].as_array().expect("results") {
            let mut original = first.iter().find(|one| one["eventId"] == result["eventId"]).expect("its first").clone();
            assert_eq!(original["status"], "accepted");
            original["status"] = json!("duplicate");
            assert_eq!(*result, original);
        }
    }
    assert_eq!((rows().await, world.pipeline(&[]).await), before);
}

#[tokio::test]
async fn a_repeated_event_id_in_one_batch_is_a_duplicate_even_with_other_content() {
    let world = World::shared().await;
    let results = world
        .results(&[
            ana("enquiry.submitted").id("e-1"),
            event("contact.identified").id("e-1").email("bo@example.com"),
            ana("enquiry.submitted").id("e-1"),
        ])
        .await;
    assert_eq!(results[0]["status"], "accepted");
    for result in &results[1..] {
        assert_eq!(result["status"], "duplicate");
        let expected = (&results[0]["clientId"], &results[0]["leadId"]);
        assert_eq!((&result["clientId"], &result["leadId"]), expected);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(world.pipeline(&[]).await.len(), 1);
}

#[tokio::test]
async fn a_failed_event_is_not_remembered_even_within_its_batch() {
    let world = World::shared().await;
    let update = ana("contact.updated").id("u-1").name("Ana");
    let response =
        world.send(&[update.clone(), ana("contact.identified"), update.clone(), update.clone()]).await.json();
    assert_eq!(statuses(&response), ["failed", "accepted", "accepted", "duplicate"]);
    let never = event("contact.updated").id("u-2").email("nobody@example.com");
    let response = world.send(&[never.clone(), never]).await.json();
    assert_eq!(statuses(&response), ["failed", "failed"]);
}

#[tokio::test]
async fn event_ids_that_differ_in_case_or_space_are_different_events() {
    let world = World::shared().await;
    for id in ["e-1", "E-1", " e-1", "e-1 "] {
        let result = world.accept(ana("contact.identified").id(id)).await;
        assert_eq!(result["eventId"], id);
    }
}
