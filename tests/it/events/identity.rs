//! Which client an event is about (D10).

use super::{ana, warnings};
use serde_json::json;
use tests::{Event, World, event};

#[tokio::test]
async fn compares_emails_without_their_case_and_external_ids_exactly_both_trimmed() {
    let world = World::shared().await;
    let contact = || event("contact.identified");
    let id = async |sent: Event| world.accept(sent).await["clientId"].clone();
    let first = id(contact().email("Ana@Example.com")).await;
    for email in ["ana@example.com", " ANA@EXAMPLE.COM "] {
        assert_eq!(id(contact().email(email)).await, first);
    }
    assert_eq!(world.client(&first).await["email"], "Ana@Example.com");
    let first = id(contact().external_id("P-1")).await;
    assert_eq!(id(contact().external_id(" P-1 ")).await, first);
    assert_ne!(id(contact().external_id("p-1")).await, first);
}

#[tokio::test]
async fn matches_only_by_the_first_identity_sent() {
    let world = World::shared().await;
    let ana =
        world.accept(ana("contact.identified").phone("111").external_id("p-1")).await["clientId"].clone();
    let by_email = world.accept(event("contact.identified").email("bo@example.com").phone("111")).await;
    assert_ne!(by_email["clientId"], ana, "another email is another person, whatever the phone");
    let by_id = world.accept(event("contact.identified").external_id("p-2").phone("111")).await;
    assert_ne!(by_id["clientId"], ana, "another external id is another person, whatever the phone");
    assert_ne!(by_id["clientId"], by_email["clientId"]);
    let known = world.accept(event("contact.identified").external_id("p-1").phone("222")).await;
    assert_eq!(known["clientId"], ana);
    assert_eq!(world.client(&ana).await["phone"], "222");
}

#[tokio::test]
async fn compares_phones_by_digits_and_finds_the_oldest_client() {
    let world = World::shared().await;
    let oldest = world.accept(ana("contact.identified").phone("+351 (91) 234-5")).await;
    let other = world.accept(event("contact.identified").email("bo@example.com").phone("351912345")).await;
    for phone in ["351912345", "+351-91-2345", "tel. 351 912 345"] {
        let result = world.accept(event("contact.identified").phone(phone)).await;
        assert_eq!(result["clientId"], oldest["clientId"], "{phone}");
    }
    let part = world.accept(event("contact.identified").phone("912345")).await;
    assert_ne!(part["clientId"], oldest["clientId"], "a part of the digits is another phone");
    world.accept(ana("contact.identified").phone("1")).await;
    let next = world.accept(event("contact.identified").phone("351912345")).await;
    assert_eq!(next["clientId"], other["clientId"], "the next oldest, once she has another number");
}

#[tokio::test]
async fn an_external_id_held_by_another_client_is_dropped_with_a_warning() {
    let world = World::shared().await;
    let holder = world.accept(event("contact.identified").external_id("p-1").name("Holder")).await;
    let made = world.accept(ana("contact.identified").external_id("p-1")).await;
    assert_ne!(made["clientId"], holder["clientId"]);
    assert_eq!(warnings(&made), ["identity_conflict:externalId"]);
    assert_eq!(world.client(&made["clientId"]).await["external_id"], json!(null));

    let own = world.accept(ana("contact.identified").external_id("p-2")).await;
    assert!(warnings(&own).is_empty(), "a free one is taken: {own}");
    let kept = world.accept(ana("contact.identified").external_id("p-1")).await;
    assert_eq!(warnings(&kept), ["identity_conflict:externalId"]);
    assert_eq!(world.client(&kept["clientId"]).await["external_id"], "p-2", "it keeps its own");
    assert_eq!(world.client(&holder["clientId"]).await["external_id"], "p-1");
}

#[tokio::test]
async fn clients_of_different_tenants_are_never_matched() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let here = world.accept(ana("contact.identified").external_id("p-1").phone("111")).await;
    for event in [
        ana("contact.identified").external_id("p-1"),
        event("contact.updated").phone("111").name("Not yours"),
        event("contact.updated").external_id("p-other").name("Not yours"),
    ] {
        let body = tests::event::batch(&[event.tenant("zeta")]);
        let there = world.http().send(&zeta.events(body)).await.json()["results"][0].clone();
        assert_ne!(there["clientId"], here["clientId"]);
        assert!(warnings(&there).is_empty(), "{there}");
    }
    assert_eq!(world.timeline(&here["clientId"]).await.len(), 1);
    assert_eq!(world.client(&here["clientId"]).await["name"], "ana@example.com");
}
