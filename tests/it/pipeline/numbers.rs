//! Enquiry numbers that a unit reserved and did not take.

use super::email_lock;
use super::faults::until_worker;
use serde_json::Value;
use std::collections::BTreeSet;
use tests::private::{End, Postgres};
use tests::{World, event, text};

async fn number_of(world: &World, lead: &Value) -> String {
    text(&world.lead(lead).await["enquiryNumber"]).to_owned()
}

#[tokio::test]
async fn a_reserved_number_is_not_used_once_the_database_has_crashed() {
    let postgres = Postgres::start().await;
    let world = World::with().on_postgres(postgres.url()).start().await;
    let first = world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    // It may open an enquiry, and finds one: its number is left.
    world.accept(event("traveller.discovery_upserted").email("ana@example.com")).await;
    postgres.stop(End::Immediate).await;
    postgres.start_again().await;
    for program in world.ingests.iter().chain(&world.workers) {
        program.until_ready().await;
    }
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
    assert_eq!(conflicts, 0.0, "no number was handed out twice");
}

#[tokio::test]
async fn a_unit_that_runs_again_uses_the_number_that_it_has_reserved() {
    let world = World::start().await;
    let other = world.database.connect().await;
    let lock = format!("BEGIN; SELECT pg_advisory_xact_lock({})", email_lock("ana@example.com"));
    other.batch_execute(&lock).await.expect("nobody has it");
    let commit = async {
        // The first run has found that somebody else makes this client; the second one waits for them.
        until_worker(&world, "the worker waits for the email's lock", "wait_event = 'advisory'").await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    let submitted = world.accept(event("enquiry.submitted").email("ana@example.com"));
    let (result, ()) = futures_util::join!(submitted, commit);
    let number = number_of(&world, &result["leadId"]).await;
    assert!(number.ends_with("-000001"), "{number}");
    assert_eq!(world.database.count("SELECT last::bigint FROM enquiry_counters").await, 1);
}
