//! The migration that creates the indexes of retention, on a deployment that is at work.

use tests::{World, event};

const MIGRATION: &str = include_str!("../../../sql/V15__expired_rows_are_found_by_age.sql");

/// The indexes that the migration creates and that are valid.
const VALID: &str = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    WHERE i.indisvalid AND c.relname IN ('deliveries_settled', 'outbox_relayed', 'idempotency_keys_created_at',
                                         'notifications_at', 'event_ledger_applied_at')";

#[tokio::test]
async fn can_be_repeated_after_an_interruption_while_the_programs_write() {
    let world = World::with().dispatchers(1).start().await;
    // As an interrupted run leaves it: some indexes are missing, one is invalid.
    world
        .database
        .execute(
            "DROP INDEX outbox_relayed, event_ledger_applied_at;
             UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'notifications_at'::regclass",
        )
        .await;
    let client = world.database.connect().await;
    assert_eq!(world.database.count(VALID).await, 2);
    let migrate = async {
        for statement in MIGRATION.split_inclusive(";\n") {
            client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    };
    let write = async {
        for number in 0..20 {
            world.accept(event("enquiry.submitted").email(&format!("ana{number}@example.com"))).await;
        }
    };
    futures_util::join!(migrate, write);
    assert_eq!(world.database.count(VALID).await, 5);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 20);
}
