//! Values that no key opens, and the gauge of sealed values.

use super::{NEW_MASTER_KEY, swap, swapped, with_new_key};
use common::sealed::MasterKey;
use serde_json::json;
use tests::{MASTER_KEY, World};

#[tokio::test]
async fn values_that_no_key_opens_are_reported_and_do_not_hold_up_the_rotation() {
    let world = World::with().ingests(0).workers(0).start().await;
    world.add_key("events:ingest").await;
    let damage = "UPDATE api_keys SET revoked_at = now(), secret_sealed = secret_sealed || '\\x00'
        WHERE prefix = (SELECT prefix FROM api_keys ORDER BY created_at DESC LIMIT 1)";
    world.database.execute(damage).await;
    let rotated = swapped(&world).json(&["secrets", "rotate"]).await;
    assert_eq!((&rotated["remaining"], &rotated["unreadable"]), (&json!(0), &json!(1)), "{rotated}");
    with_new_key(&world).json(&["secrets", "rotate"]).await;
}

#[tokio::test]
async fn the_gauge_shows_the_values_of_each_key() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let total = world.database.count("SELECT sum(sealed_values)::bigint FROM sealed_value_counts()").await;
    let [old, new] =
        [MASTER_KEY, NEW_MASTER_KEY].map(|key| MasterKey::parse(key).expect("a key").id().to_string());
    let gauge = async |world: &World, key_id: &str, key: &str, expected: i64| {
        let labels = [("key_id", key_id), ("key", key)];
        world.workers[0].until_sum("connect_sealed_values", &labels, expected as f64).await;
    };
    swap(&mut world);
    world.add_worker().await;
    gauge(&world, &old, "previous", total).await;
    gauge(&world, &new, "current", 0).await;
    swapped(&world).json(&["secrets", "rotate"]).await;
    gauge(&world, &new, "current", total).await;
    gauge(&world, &old, "previous", 0).await;
}
