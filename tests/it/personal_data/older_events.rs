//! Events and writes about a person after the erasure.

use super::{AFTER, BEFORE, at, erase, identified, outcome};
use crate::records::{get, patch, post};
use common::event::InboundType;
use serde_json::json;
use tests::{Event, MASTER_KEY, World, event, text};

const ERASED: (&str, &str) = ("failed", "contact_erased");
const NEW_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

#[tokio::test]
async fn older_events_are_refused_and_newer_ones_create_a_new_client() {
    let world = World::shared().await;
    let first = identified().email("Ana@example.com").external_id("X-1").phone("+49 30 1");
    let client = world.accept(first.clone()).await["clientId"].clone();
    let receipt = erase(&world.connectctl, &client).await;
    let erased_at = text(&receipt["erasedAt"]);
    // The event itself, and others with each identity.
    let older: [Event; 6] = [
        first,
        identified().email(" ANA@example.com"),
        identified().external_id("X-1"),
        identified().email("other@example.com").external_id("X-1"),
        identified().phone("+49 (30) 1"),
        at(erased_at, event("contact.identified")).email("ana@example.com"),
    ];
    for event in older {
        assert_eq!(outcome(&world.result(event.clone()).await), ERASED, "{event:?}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 0);

    let new = world.accept(at(AFTER, event("contact.identified")).email("ana@example.com")).await;
    assert_ne!(new["clientId"], client);
    assert_eq!(outcome(&world.result(identified().email("ana@example.com")).await), ERASED, "still");
    assert_eq!(world.timeline(&new["clientId"]).await.len(), 1);
    let with_phone = world.accept(identified().email("bo@example.com").phone("+49 30 1")).await;
    assert_eq!(with_phone["status"], "accepted", "somebody else who shares the phone");
}

#[tokio::test]
async fn applied_events_of_another_person_with_an_identity_of_the_erased_one_are_duplicates() {
    let world = World::shared().await;
    let of_bo = identified().phone("+49 30 1");
    let bo = world.accept(of_bo.clone()).await["clientId"].clone();
    let ana = identified().email("ana@example.com").phone("+49 30 1").external_id("X-1");
    let ana = world.accept(ana).await["clientId"].clone();
    assert_ne!(ana, bo);
    let of_cy = identified().email("cy@example.com").external_id("X-1");
    let cy = world.accept(of_cy.clone()).await["clientId"].clone();
    assert_ne!(cy, ana, "the external id is Ana's");
    erase(&world.connectctl, &ana).await;
    for (again, client) in [(of_bo, &bo), (of_cy, &cy)] {
        let result = world.result(again).await;
        assert_eq!((text(&result["status"]), &result["clientId"]), ("duplicate", client), "{result}");
    }
}

#[tokio::test]
async fn older_events_with_an_identity_that_was_changed_before_the_erasure_are_refused() {
    let world = World::shared().await;
    let first = identified().email("ana@example.com").external_id("X-1").phone("+49 30 1");
    let client = world.accept(first.clone()).await["clientId"].clone();
    let second = identified().email("ana@example.com").external_id("X-2").phone("+49 30 2");
    assert_eq!(world.accept(second).await["clientId"], client);
    let route = format!("/clients/{}", text(&client));
    for email in ["ana@example.net", "ana@example.org"] {
        assert_eq!(patch(&world, &route, json!({"email": email})).await.status, 200);
    }
    // An identity that somebody else has by now: it was Ana's until she lost it.
    let taken = post(&world, "/clients", json!({"email": "ana@example.net", "phone": "+49 30 1"})).await;
    let other = taken.json()["data"]["id"].clone();
    assert!(other.is_string() && other != client, "{taken:?}");
    let exported = super::export(&world.connectctl, &client).await;
    assert_eq!(exported["records"]["formerIdentities"].as_array().map(Vec::len), Some(4), "{exported}");
    let receipt = erase(&world.connectctl, &client).await;
    assert_eq!(receipt["removed"]["formerIdentities"], 4, "{receipt}");
    let older = [
        first,
        identified().email("ana@example.com"),
        identified().email("ana@example.org"),
        identified().email("ana@example.net"),
        identified().external_id("X-1"),
        identified().external_id("X-2"),
        identified().phone("+49 30 1"),
        identified().phone("+49 30 2"),
    ];
    for event in older {
        assert_eq!(outcome(&world.result(event.clone()).await), ERASED, "{event:?}");
    }
    let at_erasure = || at(text(&receipt["erasedAt"]), event("contact.identified"));
    for event in [at_erasure().email("ana@example.net"), at_erasure().phone("+49 30 1")] {
        assert_eq!(world.accept(event).await["clientId"], other);
    }
    let of_nobody = at_erasure().email("ana@example.com");
    assert_eq!(outcome(&world.result(of_nobody).await), ERASED, "nobody else had it");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn every_type_of_older_event_is_refused() {
    let world = World::shared().await;
    let ana = |event_type: &str| at(BEFORE, event(event_type)).email("ana@example.com");
    let client = world.accept(ana("contact.identified")).await["clientId"].clone();
    erase(&world.connectctl, &client).await;
    for event_type in InboundType::ALL.iter().map(|kind| kind.as_str()) {
        assert_eq!(outcome(&world.result(ana(event_type)).await), ERASED, "{event_type}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
}

#[tokio::test]
async fn a_batch_of_erased_and_living_people_has_a_result_for_each() {
    let world = World::shared().await;
    let ana = world.accept(identified().email("ana@example.com")).await["clientId"].clone();
    let bo = world.accept(identified().email("bo@example.com")).await["clientId"].clone();
    erase(&world.connectctl, &ana).await;
    let repeated = identified().email("bo@example.com");
    let batch = [
        identified().email("ana@example.com"),
        repeated.clone(),
        at(AFTER, event("contact.identified")).email("ana@example.com"),
        repeated,
        at(BEFORE, event("enquiry.submitted")).email("ana@example.com"),
        identified().email("cleo@example.com"),
    ];
    let results = world.results(&batch).await;
    let outcomes: Vec<_> = results.iter().map(outcome).collect();
    let (accepted, duplicate) = (("accepted", ""), ("duplicate", ""));
    assert_eq!(outcomes, [ERASED, accepted, accepted, duplicate, ERASED, accepted]);
    assert_eq!(results[1]["clientId"], bo);
    // Failed events are not remembered: sent again, they are decided again.
    let again = world.results(&batch).await;
    let outcomes: Vec<_> = again.iter().map(outcome).collect();
    assert_eq!(outcomes, [ERASED, duplicate, duplicate, duplicate, ERASED, duplicate]);
}

#[tokio::test]
async fn the_records_api_does_not_know_an_erased_client_and_creates_a_new_one() {
    let world = World::shared().await;
    let enquiry = at(BEFORE, event("enquiry.submitted")).email("ana@example.com");
    let opened = world.accept(enquiry).await;
    let (client, lead) = (text(&opened["clientId"]), text(&opened["leadId"]));
    erase(&world.connectctl, &opened["clientId"]).await;
    for route in [format!("/clients/{client}"), format!("/leads/{lead}"), format!("/leads/{lead}/trip")] {
        get(&world, &route).await.assert_error(404, "not_found");
    }
    assert_eq!(get(&world, "/clients?email=ana@example.com").await.json()["data"], json!([]));
    let attached = post(&world, "/leads", json!({"clientId": client})).await;
    attached.assert_error(404, "not_found");
    let created = post(&world, "/clients", json!({"email": "ana@example.com"})).await.assert_status(201);
    assert_ne!(created.json()["data"]["id"], client);
}

#[tokio::test]
async fn older_events_are_refused_after_a_rotation_of_the_master_key() {
    let mut world = World::start().await;
    let client = world.accept(identified().email("ana@example.com")).await["clientId"].clone();
    erase(&world.connectctl, &client).await;
    world.end_workers().await;
    world.ingests.clear();
    let swapped = world.connectctl.without("CONNECT_MASTER_KEY").and("CONNECT_MASTER_KEY", NEW_MASTER_KEY);
    let rotated = swapped.clone().and("CONNECT_MASTER_KEY_PREVIOUS", MASTER_KEY).json(&["secrets", "rotate"]).await;
    assert_eq!((&rotated["remaining"], &rotated["unreadable"]), (&json!(0), &json!(0)), "{rotated}");
    let kept = swapped.list(&["secrets", "list"]).await;
    assert!(kept.iter().all(|count| count["key"] == "current"), "{kept:?}");
    world.set("CONNECT_MASTER_KEY", NEW_MASTER_KEY);
    world.add_ingest().await;
    world.add_worker().await;
    assert_eq!(outcome(&world.result(identified().email("ana@example.com")).await), ERASED);
    erase(&swapped, &client).await;
}
