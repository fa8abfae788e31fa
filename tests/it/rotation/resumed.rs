//! A rotation of the master key that is killed, and continued by another run.

use super::{counts, remove_previous, swap, swapped, with_new_key};
use common::model::TenantId;
use common::sealed::{MasterKey, Secret, api_key_binding};
use tests::{MASTER_KEY, Program, World, text};
use uuid::Uuid;

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
    assert!(
        (1..total).contains(&left) && after["current"].as_u64() == Some(total - left),
        "{after} of {total}"
    );

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
