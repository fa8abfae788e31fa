//! Rotating the master key, and the secrets of API keys (D5, D33): the canary follows the rotation, so that a program
//! which lacks a key that is still needed is not ready; a killed rotation is continued by another run; values that no
//! key opens are counted.

mod key_secrets;
mod running;

use common::model::TenantId;
use common::sealed::{MasterKey, Secret, api_key_binding};
use serde_json::{Value, json};
use tests::{Connectctl, MASTER_KEY, Program, World, text};
use uuid::Uuid;

/// The master key that replaces [`MASTER_KEY`].
const NEW_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

const CURRENT: &str = "CONNECT_MASTER_KEY";
const PREVIOUS: &str = "CONNECT_MASTER_KEY_PREVIOUS";

/// `connectctl` of a world, after the swap: with the new key, and the old one as the previous key.
fn swapped(world: &World) -> Connectctl {
    world.connectctl.without(CURRENT).and(CURRENT, NEW_MASTER_KEY).and(PREVIOUS, MASTER_KEY)
}

/// `connectctl` of a world with the new key only.
fn with_new_key(world: &World) -> Connectctl {
    world.connectctl.without(CURRENT).and(CURRENT, NEW_MASTER_KEY)
}

/// Programs that start from now on have the new key, and the old one as the previous key.
fn swap(world: &mut World) {
    world.set(CURRENT, NEW_MASTER_KEY);
    world.set(PREVIOUS, MASTER_KEY);
}

/// Programs that start from now on have the new key only.
fn remove_previous(world: &mut World) {
    world.set(PREVIOUS, "");
}

/// The number of values of each kind of key, as `connectctl secrets list` prints them.
async fn counts(connectctl: &Connectctl) -> Value {
    let counts = connectctl.list(&["secrets", "list"]).await;
    let count = |of: &str| {
        let matching = counts.iter().filter(|count| count["key"] == of);
        matching.map(|count| count["values"].as_u64().expect("a number")).sum::<u64>()
    };
    json!({"current": count("current"), "previous": count("previous")})
}

#[tokio::test]
async fn without_the_previous_key_programs_are_ready_only_after_the_rotation() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    // Programs that are prepared for the next key use the current one.
    world.set(PREVIOUS, NEW_MASTER_KEY);
    Program::listening("connect-ingest", world.settings()).await.until_ready().await;
    let prepared = world.connectctl.clone().and(PREVIOUS, NEW_MASTER_KEY);
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
    with_new_key(&world).assert_refusal(&["secrets", "rotate"], "CONNECT_MASTER_KEY differs").await;

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
    let [old, new] = [MASTER_KEY, NEW_MASTER_KEY].map(|key| MasterKey::parse(key).expect("a key").id().to_string());
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

/// Several batches of the command.
const KEYS: usize = 1_000;

/// Creates keys, sealed under the old master key.
async fn create_keys(world: &World) {
    let tenant = world.database.rows("SELECT tenant_id::text AS id FROM tenants", &[]).await;
    let tenant = Uuid::parse_str(text(&tenant[0]["id"])).expect("a UUID");
    let master = MasterKey::parse(MASTER_KEY).expect("a key");
    let prefixes: Vec<String> = (0..KEYS).map(|number| format!("ck_{number:016x}")).collect();
    let seal = |(number, prefix): (usize, &String)| {
        let mut nonce = [0; 12];
        nonce[..8].copy_from_slice(&number.to_be_bytes());
        master.seal(&Secret::new(format!("cs_{prefix}")), &api_key_binding(TenantId(tenant), prefix), nonce)
    };
    let sealed: Vec<Vec<u8>> = prefixes.iter().enumerate().map(seal).collect();
    let insert = "INSERT INTO api_keys (tenant_id, prefix, name, secret_sealed, scopes, created_at)
        SELECT $1, prefix, 'many', sealed, '{events:ingest}', now()
        FROM unnest($2::text[], $3::bytea[]) AS k (prefix, sealed)";
    let client = world.database.connect().await;
    client.execute(insert, &[&tenant, &prefixes, &sealed]).await.expect("keys");
}

#[tokio::test]
async fn a_killed_rotation_is_continued_by_another_run() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    create_keys(&world).await;
    let total = counts(&swapped(&world)).await["previous"].as_u64().expect("a number");
    assert!(total > KEYS as u64, "{total}");

    // The run waits for a key in the middle.
    let mut client = world.database.connect().await;
    let holding = client.build_transaction().start().await.expect("a transaction");
    let middle = format!("ck_{:016x}", KEYS / 2);
    holding.execute("SELECT FROM api_keys WHERE prefix = $1 FOR UPDATE", &[&middle]).await.expect("the key");
    let mut run = swapped(&world).start(&["secrets", "rotate"]);
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'connectctl' AND wait_event_type = 'Lock'";
    world.database.until_count(waits, 1).await;
    run.kill().await.expect("it runs");
    holding.rollback().await.expect("the lock is released");
    world.database.until_count(waits, 0).await;
    let after = counts(&swapped(&world)).await;
    let left = after["previous"].as_u64().expect("a number");
    assert!((1..total).contains(&left) && after["current"].as_u64() == Some(total - left), "{after} of {total}");

    // The previous key is removed too early.
    swap(&mut world);
    remove_previous(&mut world);
    let early = Program::listening("connect-dispatcher", world.settings()).await;
    assert_eq!(early.until_unready().await["checks"]["master_key"], false);

    let rotated = swapped(&world).json(&["secrets", "rotate"]).await;
    assert_eq!((rotated["rewrapped"].as_u64(), &rotated["remaining"]), (Some(left), &0.into()), "{rotated}");
    assert_eq!(counts(&with_new_key(&world)).await["current"].as_u64(), Some(total));
    early.until_ready().await;
}

#[tokio::test]
async fn concurrent_rotations_rewrap_each_value_once() {
    let world = World::with().ingests(0).workers(0).start().await;
    create_keys(&world).await;
    let connectctl = swapped(&world);
    let total = counts(&connectctl).await["previous"].as_u64().expect("a number");
    let runs = (0..3).map(|_| connectctl.json(&["secrets", "rotate"]));
    let reports = futures_util::future::join_all(runs).await;
    let rewrapped: u64 = reports.iter().map(|report| report["rewrapped"].as_u64().expect("a number")).sum();
    assert_eq!(rewrapped, total, "{reports:?}");
    assert_eq!(counts(&with_new_key(&world)).await["current"].as_u64(), Some(total));
}
