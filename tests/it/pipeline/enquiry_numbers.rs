//! Enquiry numbers that a unit reserved and did not take.

use super::email_lock;
use serde_json::Value;
use std::collections::BTreeSet;
use tests::dedicated_servers::{Postgres, StopMode};
use tests::{Event, World, event, text};

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
    let other = world.database.connect().await;
    let lock = format!("BEGIN; SELECT pg_advisory_xact_lock({})", email_lock("ana@example.com"));
    other.batch_execute(&lock).await.expect("nobody has it");
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
