//! Faults of ours: 500 that says nothing of the inside, and nothing is kept (D4, D21b).

use super::{break_inserts, every_read, every_write, mend, new_lead, used};
use serde_json::json;
use tests::World;

#[tokio::test]
async fn a_write_that_fails_inside_is_500_leaves_nothing_and_passes_once_it_can() {
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
    assert_eq!(used(&world).await, 1);
    mend(&world).await;
    for route in &writes {
        let answer = world.http().send(&route.signed(&world.key)).await;
        assert_eq!(answer.status, route.success(), "{route:?}: {answer:?}");
    }
    assert_eq!(used(&world).await, 6);
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_500_and_the_others_are_shown() {
    let world = World::start().await;
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
    // Nor does it keep the worker from anything.
    for route in every_write(&broken) {
        let answer = world.http().send(&route.signed(&world.key)).await;
        let expected = if route.path.starts_with("/leads/") { 500 } else { route.success() };
        assert_eq!(answer.status, expected, "{route:?}: {answer:?}");
    }
    for route in every_write(&whole) {
        assert_eq!(world.http().send(&route.signed(&world.key)).await.status, route.success(), "{route:?}");
    }
}
