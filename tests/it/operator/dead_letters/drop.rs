//! `queue drop`.

use super::{poison, until_dead, world};
use serde_json::json;

#[tokio::test]
async fn dead_letters_are_dropped_only_when_that_is_confirmed() {
    let world = world().await;
    world.queues.put_all("records", &poison(300)).await;
    until_dead(&world, "records", 300).await;
    let refusal = world.connectctl.refusal(&["queue", "drop", "records", "--dead"]).await;
    assert!(refusal.contains("--yes"), "{refusal}");
    until_dead(&world, "records", 300).await;
    let drop = ["queue", "drop", "records", "--dead", "--yes"];
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 300}));
    assert_eq!(world.queues.depth("records.dead").await, 0);
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 0}));
}
