//! Values that were sealed by earlier releases, and the gauge of sealed values.

use super::{NEW_MASTER_KEY, counts, remove_previous, swap, swapped, with_new_key};
use common::sealed::MasterKey;
use serde_json::json;
use tests::event::batch;
use tests::{ApiKey, MASTER_KEY, MAX_WAIT, World, event, eventually};

/// A key as the previous release stored it: nonce, then ciphertext and tag, sealed under [`MASTER_KEY`] with another
/// implementation of AES-256-GCM.
const PREVIOUS_RELEASE: &str = "
    INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, created_at)
    VALUES ('01890c9d-47a3-7c11-9d1e-3f5a8b2c4d6e', 'sealed', 'Sealed', 'ENQ', now());
    INSERT INTO api_keys (tenant_id, prefix, name, secret_sealed, scopes, created_at)
    VALUES ('01890c9d-47a3-7c11-9d1e-3f5a8b2c4d6e', 'ck_0123456789abcdef', 'old',
        '\\x000102030405060708090a0b4e96e40fbc79bec9cc8313c72ebbb961b97871e24ad51bfe5383c9d1d440cdf7d80c665a74de751baae69896ee5d083ce3',
        '{events:ingest}', now());
    UPDATE master_key_canary SET sealed = '\\x000102030405060708090a0b4e84d51dab61f5fd861462516d4b57d685f02d27e045'";
const SECRET: &str = "cs_sealed_by_the_previous_release";

/// Replaces worker and ingest by new ones with the current settings.
async fn restart(world: &mut World) {
    world.end_workers().await;
    world.add_worker().await;
    world.restart_ingest().await;
}

#[tokio::test]
async fn values_of_the_previous_release_are_readable_and_are_rewrapped() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    world.database.execute(PREVIOUS_RELEASE).await;
    let printed = json!({"prefix": "ck_0123456789abcdef", "secret": SECRET});
    let key = ApiKey::of("sealed", &printed);
    let request =
        |email: &str| key.events(batch(&[event("contact.identified").tenant("sealed").email(email)]));
    world.add_worker().await;
    world.add_ingest().await;
    assert_eq!(world.http().send(&request("a@example.com")).await.status, 200);
    assert_eq!(counts(&world.connectctl).await["unversioned"], 2);

    swap(&mut world);
    restart(&mut world).await;
    assert_eq!(world.http().send(&request("b@example.com")).await.status, 200, "with the previous key");
    let rotated = swapped(&world).json(&["secrets", "rotate"]).await;
    assert_eq!(rotated["remaining"], 0, "{rotated}");
    assert_eq!(world.http().send(&request("c@example.com")).await.status, 200, "after the rotation");
    remove_previous(&mut world);
    restart(&mut world).await;
    assert_eq!(world.http().send(&request("d@example.com")).await.status, 200, "with the new key only");
    assert_eq!(counts(&with_new_key(&world)).await["unversioned"], 0);
}

#[tokio::test]
async fn a_rotation_without_another_key_gives_values_their_key_id() {
    let world = World::with().ingests(0).workers(0).start().await;
    world.database.execute(PREVIOUS_RELEASE).await;
    let rotated = world.connectctl.json(&["secrets", "rotate"]).await;
    assert_eq!((&rotated["rewrapped"], &rotated["remaining"]), (&json!(2), &json!(0)), "{rotated}");
    let id = MasterKey::parse(MASTER_KEY).expect("a key").id().to_string();
    assert_eq!(rotated["keyId"], id);
    assert_eq!(counts(&world.connectctl).await["unversioned"], 0);
}

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
        eventually("the gauge shows it", MAX_WAIT, async || {
            let shown = world.workers[0].metrics().await;
            let shown = shown.sum("connect_sealed_values", &[("key_id", key_id), ("key", key)]);
            #[expect(clippy::cast_precision_loss, reason = "a small number")]
            if shown == expected as f64 { Ok(()) } else { Err(shown.to_string()) }
        })
        .await;
    };
    swap(&mut world);
    world.add_worker().await;
    gauge(&world, &old, "previous", total).await;
    gauge(&world, &new, "current", 0).await;
    swapped(&world).json(&["secrets", "rotate"]).await;
    gauge(&world, &new, "current", total).await;
    gauge(&world, &old, "previous", 0).await;
}
