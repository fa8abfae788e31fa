//! Internal errors: 500 without internal details, and nothing is stored (D4, D21b).

use super::{break_inserts, every_read, every_write, new_lead, restore_inserts, writes_used};
use serde_json::json;
use tests::World;

#[tokio::test]
async fn a_write_with_an_internal_error_gets_500_and_leaves_nothing() {
    let world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let writes = every_write(&lead);
    break_inserts(&world, "event_ledger").await;
    for route in &writes {
        let code = if route.path == "/leads" { "lead_create_failed" } else { "internal_error" };
        let message = world.http().send(&route.signed(&world.key)).await.assert_error(500, code);
        assert!(!message.contains("refused"), "nothing of the inside: {message}");
    }
    for (what, count) in
        [("clients", 1), ("leads", 1), ("trips", 1), ("inbox_messages", 0), ("idempotency_keys", 1)]
    {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {what}")).await, count, "{what}");
    }
    assert_eq!(writes_used(&world).await, 1);
    restore_inserts(&world).await;
    for route in &writes {
        let response = world.http().send(&route.signed(&world.key)).await;
        assert_eq!(response.status, route.success(), "{route:?}: {response:?}");
    }
    assert_eq!(writes_used(&world).await, 6);
}

#[tokio::test]
async fn a_corrupt_record_gets_500_and_does_not_affect_others() {
    let world = World::shared().await;
    let (broken, whole) = (new_lead(&world, json!({})).await, new_lead(&world, json!({})).await);
    let id = tests::text(&broken["id"]);
    world.database.execute(&format!("UPDATE trips SET brief = '[1]' WHERE lead_id = '{id}'")).await;
    for route in every_read(&broken).iter().filter(|route| route.path.starts_with("/leads/")) {
        let message = world.http().send(&route.signed(&world.key)).await.assert_error(500, "internal_error");
        assert_eq!(message, "Internal error", "{route:?}");
    }
    for route in every_read(&whole) {
        assert_eq!(world.http().send(&route.signed(&world.key)).await.status, 200, "{route:?}");
    }
    // It does not affect the worker either.
    for route in every_write(&broken) {
        let response = world.http().send(&route.signed(&world.key)).await;
        let expected = if route.path.starts_with("/leads/") { 500 } else { route.success() };
        assert_eq!(response.status, expected, "{route:?}: {response:?}");
    }
    for route in every_write(&whole) {
        assert_eq!(world.http().send(&route.signed(&world.key)).await.status, route.success(), "{route:?}");
    }
}
