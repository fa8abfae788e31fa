//! The canary follows the rotation, so that a program which lacks a key that is still needed is not ready.

use super::{CURRENT, NEW_MASTER_KEY, counts, remove_previous, swap, swapped, with_new_key};
use serde_json::json;
use tests::{Program, World};

#[tokio::test]
async fn without_the_previous_key_programs_are_ready_only_after_the_rotation() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    // Programs that are prepared for the next key use the current one.
    world.set(super::PREVIOUS, NEW_MASTER_KEY);
    Program::listening("connect-ingest", world.settings()).await.until_ready().await;
    let prepared = world.connectctl.clone().and(super::PREVIOUS, NEW_MASTER_KEY);
    let rotated = prepared.json(&["secrets", "rotate"]).await;
    assert_eq!((&rotated["rewrapped"], &rotated["remaining"]), (&json!(0), &json!(0)), "{rotated}");
    assert_eq!(counts(&prepared).await["previous"], 0);

    swap(&mut world);
    for name in ["connect-ingest", "connect-worker", "connect-dispatcher"] {
        Program::listening(name, world.settings()).await.until_ready().await;
    }
    remove_previous(&mut world);
    let early = Program::listening("connect-ingest", world.settings()).await;
    assert_eq!(early.until_unready().await["checks"]["master_key"], false);
    early.until_logged("set CONNECT_MASTER_KEY_PREVIOUS to the earlier key").await;
    let refusal = with_new_key(&world).refusal(&["secrets", "rotate"]).await;
    assert!(refusal.contains("CONNECT_MASTER_KEY differs"), "{refusal}");

    let rotated = swapped(&world).json(&["secrets", "rotate"]).await;
    assert_eq!((&rotated["remaining"], &rotated["unreadable"]), (&json!(0), &json!(0)), "{rotated}");
    early.until_ready().await;
    assert_eq!(counts(&with_new_key(&world)).await["previous"], 0);
    // The old key alone opens nothing any more.
    let mut old = World::settings(&world).to_vec();
    old.retain(|(name, _)| name != CURRENT);
    old.push((CURRENT.to_owned(), tests::MASTER_KEY.to_owned()));
    let late = Program::listening("connect-ingest", &old).await;
    assert_eq!(late.until_unready().await["checks"]["master_key"], false);
}
