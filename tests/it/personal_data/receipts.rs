//! What `client export` and `client erase` print, and what they refuse.

use super::{BEFORE, at, company, erase, export, identified};
use crate::connectctl::{fields, is_time};
use crate::records::patch;
use serde_json::{Value, json};
use tests::{World, event, text};
use uuid::Uuid;

async fn enquiry(world: &World) -> Value {
    let payload = json!({"message": "Two weeks in Goa", "externalLeadId": "L-1"});
    let sent = at(BEFORE, event("enquiry.submitted")).email("ana@example.com").name("Ana").payload(payload);
    world.accept(sent).await
}

#[tokio::test]
async fn an_export_has_every_record_and_a_receipt_counts_what_was_removed() {
    let world = World::start().await;
    world.until_ready().await;
    let opened = enquiry(&world).await;
    world.accept(identified().email("bo@example.com")).await;
    world.queues.publish("events", b"unreadable mail of ana@example.com").await;
    world.until_depth("events.dead", 1).await;
    let exported = export(&world.connectctl, &opened["clientId"]).await;
    assert_eq!(fields(&exported), ["clientId", "deadLetters", "exportedAt", "records", "tenant"]);
    assert_eq!((&exported["clientId"], &exported["tenant"]), (&opened["clientId"], &json!("acme")));
    let records = &exported["records"];
    assert_eq!(records["client"][0]["email"], "ana@example.com");
    assert_eq!(records["leads"][0]["external_id"], "L-1");
    assert_eq!(records["inboxMessages"][0]["text"], "Two weeks in Goa");
    assert_eq!(records["timeline"][0]["payload"]["message"], "Two weeks in Goa");
    assert_eq!(exported["deadLetters"][0]["body"], "unreadable mail of ana@example.com");
    assert!(!exported.to_string().contains("bo@example.com"), "{exported}");
    assert_eq!(world.queues.depth("events.dead").await, 1);
    let again = export(&world.connectctl, &opened["clientId"]).await;
    assert_eq!((&again["records"], &again["deadLetters"]), (records, &exported["deadLetters"]));

    let receipt = erase(&world.connectctl, &opened["clientId"]).await;
    assert_eq!(fields(&receipt), ["clientId", "erasedAt", "removed"]);
    assert_eq!(receipt["clientId"], opened["clientId"]);
    assert!(is_time(&receipt["erasedAt"]), "{receipt}");
    for what in ["client", "leads", "trips", "proposals", "timeline", "events", "inboxMessages", "deadLetters"] {
        assert_eq!(receipt["removed"][what], 1, "{what}: {receipt}");
    }
    assert_eq!(erase(&world.connectctl, &opened["clientId"]).await, receipt, "it is repeated");
    let erased = ["client", "erase", "--tenant", "acme", "--client", text(&opened["clientId"]), "--yes"];
    let table = world.connectctl.run(&erased).await;
    assert!(table.output.contains("1 leads"), "{table:?}");

    // A later run removes the dead letters that have appeared since.
    for body in [
        "unreadable mail of ANA@example.com",
        &format!("unreadable lead {}", text(&opened["leadId"])),
        "unreadable mail of bo@example.com",
    ] {
        world.queues.publish("events", body.as_bytes()).await;
    }
    world.until_depth("events.dead", 3).await;
    let receipt = erase(&world.connectctl, &opened["clientId"]).await;
    assert_eq!(receipt["removed"]["deadLetters"], 3, "{receipt}");
    world.until_depth("events.dead", 1).await;
}

#[tokio::test]
async fn unknown_clients_companies_and_unconfirmed_erasures_are_refused() {
    let world = World::shared().await;
    world.add_tenant("beta").await;
    let client = world.accept(identified().email("ana@example.com")).await["clientId"].clone();
    let company = company(&world, "example.test").await;
    let unknown = Uuid::now_v7().to_string();
    for (tenant, id, reason) in [
        ("beta", text(&client), "does not exist in tenant \"beta\""),
        ("acme", &unknown, "does not exist in tenant \"acme\""),
        ("acme", "no id", "does not exist in tenant \"acme\""),
        ("nobody", text(&client), "tenant \"nobody\" does not exist"),
        ("acme", text(&company), "is a company account"),
    ] {
        let of = ["--tenant", tenant, "--client", id];
        let refusals = [
            world.connectctl.refusal(&[&["client", "export"], &of[..]].concat()).await,
            world.connectctl.refusal(&[&["client", "erase", "--yes"], &of[..]].concat()).await,
        ];
        assert!(refusals.iter().all(|refusal| refusal.contains(reason)), "{refusals:?}");
    }
    let erase = ["client", "erase", "--tenant", "acme", "--client", text(&client)];
    world.connectctl.assert_refusal(&erase, "pass --yes").await;
    assert_eq!(world.timeline(&client).await.len(), 1);
    let recorded = world.connectctl.list(&["audit", "--tenant", "acme"]).await;
    assert!(recorded.iter().all(|record| !text(&record["action"]).starts_with("client.")), "{recorded:?}");
}

#[tokio::test]
async fn a_company_keeps_its_account_and_loses_the_person() {
    let world = World::shared().await;
    let account = company(&world, "example.test").await;
    let noted = json!({"note": "call ana@example.test"});
    world.accept(at(BEFORE, event("contact.updated")).email("ana@example.test").payload(noted)).await;
    world.accept(at(BEFORE, event("contact.updated")).email("bo@example.test").name("Bo")).await;
    // Ana has left the company by the time of the erasure.
    let ana = world.accept(identified().email("ana@example.test")).await["clientId"].clone();
    assert_ne!(ana, account);
    patch(&world, &format!("/clients/{}", text(&ana)), json!({"email": "ana@example.org"})).await.assert_status(200);
    let receipt = erase(&world.connectctl, &ana).await;
    let found = (&receipt["removed"]["accountContacts"], &receipt["removed"]["accountTimeline"]);
    assert_eq!(found, (&json!(1), &json!(1)), "{receipt}");
    assert_eq!(world.client(&account).await["name"], "Example");
    let left = world.database.rows("SELECT email_key FROM account_contacts", &[]).await;
    assert_eq!(left, [json!({"email_key": "bo@example.test"})]);
    assert_eq!(super::tables_with(&world, "ana@example").await, Vec::<String>::new());
}

/// Escapes hide an address in JSON, and one address may end like another.
#[tokio::test]
async fn an_erasure_takes_a_companys_entries_about_the_person_and_no_others() {
    let world = World::shared().await;
    let account = company(&world, "corp.test").await;
    let updated = |email: &str| at(BEFORE, event("contact.updated")).email(email);
    let joana = updated("joana@corp.test").payload(json!({"email": "joana@corp.test"}));
    world.accept(joana.clone()).await;
    for (email, escapes) in [
        ("ana@corp.test", "ana\\u0040corp.test"),
        ("m\u{fc}ller@corp.test", "m\\u00fcller@corp.test"),
        ("a/b@corp.test", "a\\/b@corp.test"),
    ] {
        let escaped = updated(email).payload(json!({"email": "ESCAPED", "passport": "P1"}));
        let body = String::from_utf8(tests::event::batch(&[escaped])).expect("text");
        let body = body.replace("ESCAPED", escapes);
        assert_eq!(world.http().send(&world.key.events(body)).await.json()["accepted"], 1);
        world.accept(updated(&email.to_uppercase()).payload(json!({"passport": "P2"}))).await;
        world.accept(updated("bo@corp.test").payload(json!({"manager": email}))).await;
        let person = world.accept(identified().email(email)).await["clientId"].clone();
        let exported = export(&world.connectctl, &person).await["records"]["accountTimeline"].to_string();
        let has = |text| exported.contains(text);
        assert!(has("P1") && has("P2") && !has("joana") && !has("manager"), "{exported}");
        let receipt = erase(&world.connectctl, &person).await;
        assert_eq!(receipt["removed"]["accountTimeline"], 2, "{receipt}");
    }
    let left = world.timeline(&account).await;
    let left: Vec<&Value> = left.iter().map(|entry| &entry["payload"]).collect();
    let of_bo = ["ana@corp.test", "m\u{fc}ller@corp.test", "a/b@corp.test"].map(|email| json!({"manager": email}));
    assert_eq!(left, [&[&json!({"email": "joana@corp.test"})][..], &of_bo.iter().collect::<Vec<_>>()].concat());
    assert_eq!(world.result(joana).await["status"], "duplicate", "Joana's event is still known");
}
