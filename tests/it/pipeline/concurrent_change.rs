//! A record that somebody else changes while a unit of work has it.

use serde_json::json;
use tests::{World, event};

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
