//! `contact.identified` and `contact.updated`, which client an event is about (D10), and company accounts with their
//! people (D13).

use super::{ana, ids, warnings};
use serde_json::{Value, json};
use tests::{Event, World, event};

#[tokio::test]
async fn identified_creates_a_client_and_opens_no_lead() {
    let world = World::shared().await;
    let sent = ana("contact.identified").name("Ana Silva").phone("+351 91-234").external_id("p-1");
    let result = world.accept(sent.payload(json!({"page": "/goa"}))).await;
    assert_eq!(ids(&result)[1..], [json!(null), json!(null)], "{result}");
    let client = world.client(&result["clientId"]).await;
    assert_eq!(client["name"], "Ana Silva");
    assert_eq!(client["email"], "ana@example.com");
    assert_eq!(client["phone"], "+351 91-234");
    assert_eq!(client["external_id"], "p-1");
    assert_eq!(client["client_type"], "individual");
    assert_eq!(world.timeline(&result["clientId"]).await.len(), 1);
    assert!(world.pipeline(&[]).await.is_empty() && world.notifications().await.is_empty());
}

#[tokio::test]
async fn updated_finds_its_contact_by_external_id_or_phone_and_cannot_change_an_email() {
    let world = World::shared().await;
    let id = world.accept(ana("contact.identified").phone("+1 (555) 010").external_id("p-1")).await["clientId"].clone();
    let by_id = world.accept(event("contact.updated").external_id("p-1").name("By id")).await;
    let by_phone = world.accept(event("contact.updated").phone("1555010").name("By phone")).await;
    assert_eq!([&by_id["clientId"], &by_phone["clientId"]], [&id, &id]);
    // With an email it is matched by that one, which nobody has.
    let other = world.result(event("contact.updated").email("new@example.com").external_id("p-1").name("X")).await;
    assert_eq!(other["error"], "contact_not_found");
    let client = world.client(&id).await;
    assert_eq!((&client["email"], &client["name"]), (&json!("ana@example.com"), &json!("By phone")));
}

#[tokio::test]
async fn updated_never_creates_a_client_and_can_be_resent_later() {
    let world = World::shared().await;
    let update = ana("contact.updated").id("u-1").name("Ana Silva");
    for _ in 0..2 {
        let failed = world.result(update.clone()).await;
        assert_eq!((&failed["status"], &failed["error"]), (&json!("failed"), &json!("contact_not_found")));
        assert_eq!(failed.get("clientId"), None);
    }
    for table in ["clients", "timeline", "event_ledger"] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {table}")).await, 0, "{table}");
    }
    world.accept(ana("contact.identified")).await;
    let result = world.accept(update.clone()).await;
    assert_eq!(world.client(&result["clientId"]).await["name"], "Ana Silva");
    assert_eq!(world.result(update).await["status"], "duplicate");
}

#[tokio::test]
async fn every_other_event_upserts_its_contact() {
    let world = World::shared().await;
    for (count, event_type) in [
        "enquiry.submitted", "traveller.discovery_upserted", "trip.planning_started", "trip.draft_updated",
        "quote.requested", "booking.started", "booking.abandoned", "booking.completed", "employee.credit_updated",
    ]
    .into_iter()
    .enumerate()
    {
        let email = format!("{count}@example.com");
        let payload = json!({"asOf": "2026-05-01T10:00:00Z"});
        let made = world.accept(event(event_type).email(&email).name("First").payload(payload.clone())).await;
        let changed = world.accept(event(event_type).email(&email).name("Second").payload(payload)).await;
        assert_eq!(made["clientId"], changed["clientId"], "{event_type}");
        assert_eq!(world.client(&made["clientId"]).await["name"], "Second", "{event_type}");
        let expected: &[&str] = if event_type.starts_with("booking.") { &["no_open_enquiry"] } else { &[] };
        assert_eq!(warnings(&made), expected, "{made}");
    }
}

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
    let ana = world.accept(ana("contact.identified").phone("111").external_id("p-1")).await["clientId"].clone();
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

/// Makes the account of example.com and gives its client's id.
async fn account(world: &World) -> Value {
    let create = ["company", "create", "--tenant", "acme", "--name", "Example Ltd", "--domain", "example.com"];
    world.connectctl.json(&create).await["clientId"].clone()
}

async fn contacts(world: &World, account: &Value) -> Vec<Value> {
    let query =
        "SELECT email, name, phone, client_id::text FROM account_contacts WHERE account_id::text = $1 ORDER BY email";
    world.database.rows(query, &[&tests::text(account)]).await
}

fn dan(event_type: &str) -> Event {
    event(event_type).email("Dan@Example.com")
}

#[tokio::test]
async fn an_address_on_a_company_domain_joins_that_account() {
    let world = World::shared().await;
    let account = account(&world).await;
    let result = world.accept(dan("contact.identified").name("Dan").phone("111")).await;
    assert_ne!(result["clientId"], account, "a person is a client of their own");
    let client = world.client(&result["clientId"]).await;
    assert_eq!((&client["client_type"], &client["company"]), (&json!("individual"), &json!("Example Ltd")));
    assert_eq!(client["account_id"], account);
    let entry = json!({"email": "Dan@Example.com", "name": "Dan", "phone": "111", "client_id": result["clientId"]});
    assert_eq!(contacts(&world, &account).await, [entry]);
}

#[tokio::test]
async fn an_update_of_an_unknown_colleague_adds_a_contact_entry_and_no_client() {
    let world = World::shared().await;
    let account = account(&world).await;
    let result = world.accept(dan("contact.updated").name("Dan")).await;
    assert_eq!(result["clientId"], account);
    let expected = [json!({"email": "Dan@Example.com", "name": "Dan", "phone": null, "client_id": null})];
    assert_eq!(contacts(&world, &account).await, expected);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1, "the account alone");
    assert_eq!(world.timeline(&account).await.len(), 1);

    let changed = world.accept(dan("contact.updated").phone("222")).await;
    assert_eq!(changed["clientId"], account);
    let expected = [json!({"email": "Dan@Example.com", "name": "Dan", "phone": "222", "client_id": null})];
    assert_eq!(contacts(&world, &account).await, expected);
}
