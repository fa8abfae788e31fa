//! A record that somebody else changes while a unit of work has it.

use serde_json::json;
use tests::{World, event};

#[tokio::test]
async fn a_change_that_is_committed_after_the_unit_has_read_the_record_is_kept() {
    let world = World::start().await;
    let email = "ana@example.com";
    world.accept(event("contact.identified").email(email).name("Ana")).await;
    // The unit waits here, after loading the client and before updating it.
    let gate = world.database.connect().await;
    gate.batch_execute("SELECT pg_advisory_lock(42)").await.expect("nobody has it");
    world
        .database
        .execute(
            "CREATE FUNCTION wait_at_gate() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_advisory_xact_lock(42); RETURN NEW; END $$;
             CREATE TRIGGER gate BEFORE INSERT ON event_ledger FOR EACH ROW EXECUTE FUNCTION wait_at_gate()",
        )
        .await;
    let change = async {
        world.database.until_session_of("worker", "wait_event = 'advisory'").await;
        let rename = "UPDATE clients SET name = 'Ana B', updated_at = updated_at + interval '1 ms'";
        world.database.execute(rename).await;
        gate.batch_execute("SELECT pg_advisory_unlock(42)").await.expect("it is held");
    };
    futures_util::join!(world.accept(event("contact.updated").email(email).phone("+1 555 7")), change);
    let found = world.database.rows("SELECT name, phone FROM clients", &[]).await;
    assert_eq!(found, [json!({"name": "Ana B", "phone": "+1 555 7"})]);
}
