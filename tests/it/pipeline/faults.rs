//! Enquiry numbers that a unit reserved and did not take, records that somebody else changes while a unit has them, and
//! faults between the two round trips of a unit.

use super::email_lock;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::dedicated_servers::{Postgres, StopMode};
use tests::{Event, World, batch, event, text};

#[tokio::test]
async fn follows_an_identity_that_moves_to_another_client_meanwhile() {
    let world = World::start().await;
    let submitted = |email: &str| event("enquiry.submitted").email(email);
    let before = world.accept(submitted("ana@example.com")).await;
    let after = world.accept(submitted("ben@example.com")).await;
    let (from, to) = (text(&before["clientId"]), text(&after["clientId"]));
    let moved = format!(
        "UPDATE clients SET email = NULL, email_key = NULL WHERE client_id = '{from}';
         UPDATE clients SET email = 'ana@example.com', email_key = 'ana@example.com' WHERE client_id = '{to}'"
    );
    let other = world.database.begin(&moved).await;
    let commit = async {
        world.database.until_lock_wait_of("worker").await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    let abandoned = world.result(event("booking.abandoned").email("ana@example.com"));
    let (result, ()) = futures_util::join!(abandoned, commit);
    let expected = (&json!("accepted"), &after["clientId"], &after["leadId"]);
    assert_eq!((&result["status"], &result["clientId"], &result["leadId"]), expected, "{result}");
}

#[tokio::test]
async fn two_concurrent_units_on_one_client_both_take_effect() {
    let world = World::with().workers(2).start().await;
    world.until_ready().await;
    world.accept(event("contact.identified").email("ana@example.com").name("Ana")).await;
    let other = world.database.begin("SELECT FROM clients FOR UPDATE").await;
    // Both have read the client before one of them writes it.
    let commit = async {
        let waiting = "application_name = 'worker' AND wait_event_type = 'Lock'";
        world.database.until_sessions(waiting, 2).await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    // Of two callers: requests of one may travel in one message.
    let other_key = world.add_key("events:ingest").await;
    let updated = || event("contact.updated").email("ana@example.com");
    let name = world.key.events(batch(&[updated().name("Ana B")]));
    let phone = other_key.events(batch(&[updated().phone("+1 555 7")]));
    let (name, phone, ()) = futures_util::join!(world.http().send(&name), world.http().send(&phone), commit);
    let results = [name, phone].map(|response| response.json()["results"][0].clone());
    assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    let client = world.client(&results[0]["clientId"]).await;
    assert_eq!((&client["name"], &client["phone"]), (&json!("Ana B"), &json!("+1 555 7")));
}

async fn number_of(world: &World, lead: &Value) -> String {
    text(&world.lead(lead).await["enquiryNumber"]).to_owned()
}

#[tokio::test]
async fn a_reserved_number_is_discarded_after_a_database_crash() {
    let postgres = Postgres::start().await;
    let world = World::with().on_postgres(postgres.url()).start().await;
    let first = world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    // It reserves a number and finds an open lead, so that the number is not used.
    world.accept(event("traveller.discovery_upserted").email("ana@example.com")).await;
    postgres.stop(StopMode::Immediate).await;
    postgres.start_again().await;
    world.until_ready().await;
    // Whether the crash took the counter's last commit with it depends on when the log was written.
    world.database.execute("UPDATE enquiry_counters SET last = 1").await;
    let next = ["bo@example.com", "cy@example.com"].map(|email| event("enquiry.submitted").email(email));
    let results = world.results(&next).await;
    let mut numbers = BTreeSet::from([number_of(&world, &first["leadId"]).await]);
    for result in &results {
        numbers.insert(number_of(&world, &result["leadId"]).await);
    }
    assert_eq!(numbers.len(), 3, "{numbers:?}");
    let conflicts = [("name", "apply_unit"), ("outcome", "conflict")];
    let conflicts = world.workers[0].metrics().await.sum("connect_db_transactions_total", &conflicts);
    assert_eq!(conflicts, 0.0, "no number was used twice");
}

#[tokio::test]
async fn a_retried_unit_uses_its_reserved_number() {
    let world = World::start().await;
    let other = world.database.begin(&format!("SELECT pg_advisory_xact_lock({})", email_lock("ana@example.com"))).await;
    let commit = async {
        // The first run has found that another transaction creates this client; the second one waits for it.
        world.database.until_session_of("worker", "wait_event = 'advisory'").await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    let submitted = world.accept(event("enquiry.submitted").email("ana@example.com"));
    let (result, ()) = futures_util::join!(submitted, commit);
    let number = number_of(&world, &result["leadId"]).await;
    assert!(number.ends_with("-000001"), "{number}");
    assert_eq!(world.database.count("SELECT last::bigint FROM enquiry_counters").await, 1);
}

#[tokio::test]
async fn numbers_in_reserve_are_given_up_once_one_of_them_turns_out_to_be_in_use() {
    let world = World::start().await;
    let person = |number: usize| format!("p{number}@example.com");
    let people = 1..=8;
    let enquiries: Vec<Event> =
        people.clone().map(|number| event("enquiry.submitted").email(&person(number))).collect();
    world.results(&enquiries).await;
    // Each may open a lead, and finds one: eight numbers are left.
    let found = people.map(|number| event("traveller.discovery_upserted").email(&person(number)));
    world.results(&found.collect::<Vec<_>>()).await;
    assert_eq!(world.database.count("SELECT last::bigint FROM enquiry_counters").await, 16);
    // As if they had been handed out to somebody else: more of them than a unit is run again for.
    let taken = "UPDATE leads SET enquiry_number = left(enquiry_number, -2)
        || lpad((right(enquiry_number, 2)::integer + 8)::text, 2, '0')";
    world.database.execute(taken).await;
    let next = world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    let number = number_of(&world, &next["leadId"]).await;
    assert!(number.ends_with("-000017"), "{number}");
}

#[tokio::test]
async fn a_change_that_is_committed_after_the_unit_has_read_the_record_is_kept() {
    let world = World::start().await;
    let email = "ana@example.com";
    world.accept(event("contact.identified").email(email).name("Ana")).await;
    // The unit waits here, after loading the client and before updating it.
    let gate = world.database.hold_inserts("event_ledger").await;
    let change = async {
        world.database.until_worker_is_held().await;
        let rename = "UPDATE clients SET name = 'Ana B', updated_at = updated_at + interval '1 ms'";
        world.database.execute(rename).await;
        drop(gate);
    };
    futures_util::join!(world.accept(event("contact.updated").email(email).phone("+1 555 7")), change);
    let found = world.database.rows("SELECT name, phone FROM clients", &[]).await;
    assert_eq!(found, [json!({"name": "Ana B", "phone": "+1 555 7"})]);
}
