//! Programs use the master key that the database was set up with, or do nothing that depends on it.

use super::ports::{OTHER_MASTER_KEY, until_failing_checks};
use common::sealed::{MasterKey, MasterKeys};
use serde_json::Value;
use tests::{MASTER_KEY, MAX_WAIT, Program, TestDatabase, UNREACHED_RECEIVER, World, event, eventually};

const CANARIES: &str = "SELECT count(*) FROM master_key_canary";

/// Makes the secrets of all keys impossible to decrypt.
const DAMAGE_KEYS: &str = "UPDATE api_keys SET secret_sealed = secret_sealed || '\\x00'";

#[tokio::test]
async fn a_program_with_another_master_key_is_not_ready_and_a_worker_consumes_nothing() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "1s").start().await;
    let enquiry = || event("enquiry.submitted").email("ana@example.com").name("Ana");
    world.send(&[enquiry()]).await.assert_error(503, "processing_timeout");
    world.set("CONNECT_MASTER_KEY", OTHER_MASTER_KEY);
    for (name, lacking) in [("connect-ingest", &["master_key"][..]), ("connect-dispatcher", &["master_key", "slots"])] {
        until_failing_checks(&Program::listening(name, world.settings()).await, lacking).await;
    }
    let worker = Program::listening("connect-worker", world.settings()).await;
    until_failing_checks(&worker, &["consuming", "master_key"]).await;
    world.send(&[enquiry()]).await.assert_error(503, "processing_timeout");
    world.until_depth("events", 2).await;
    assert_eq!(world.queues.depth("events.dead").await, 0);
    let line = eventually("it says why", MAX_WAIT, async || {
        let logs = worker.logs();
        logs.lines().find(|line| line.contains("CONNECT_MASTER_KEY differs")).map(str::to_owned).ok_or(logs)
    });
    let line: Value = serde_json::from_str(&line.await).expect("JSON");
    assert_eq!(line["level"], "ERROR", "{line}");

    world.set("CONNECT_MASTER_KEY", MASTER_KEY);
    world.add_worker().await;
    world.workers[0].until_ready().await;
    world.until_applied(2).await;
}

#[tokio::test]
async fn unused_secrets_of_an_earlier_master_key_do_not_affect_readiness() {
    let world = World::with().ingests(0).workers(0).start().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let unused = "UPDATE api_keys SET revoked_at = now();
        UPDATE subscriptions SET removed_at = now(), secret_sealed = secret_sealed || '\\x00'";
    world.database.execute(&format!("{DAMAGE_KEYS}; {unused}; DELETE FROM master_key_canary")).await;
    for name in ["connect-ingest", "connect-worker", "connect-dispatcher"] {
        Program::listening(name, world.settings()).await.until_ready().await;
    }
    assert_eq!(world.database.count(CANARIES).await, 1);
}

#[tokio::test]
async fn concurrent_first_starts_with_different_master_keys_adopt_one() {
    let database = TestDatabase::new().await;
    database.execute("DELETE FROM master_key_canary").await;
    let keys = [MASTER_KEY, OTHER_MASTER_KEY].map(|key| MasterKeys::from(MasterKey::parse(key).expect("a key")));
    let verify = async |key: &MasterKeys| {
        let client = database.connect().await;
        common::db::verify_master_key(&client, key).await.expect("a response")
    };
    let found = futures_util::future::join_all((0..16).map(|i| verify(&keys[i % 2]))).await;
    let matches = |of: usize| found.iter().skip(of).step_by(2).all(|state| state.is_match());
    assert!(matches(0) != matches(1), "{found:?}");
    assert_eq!(database.count(CANARIES).await, 1);
}

#[tokio::test]
async fn connectctl_seals_no_secret_with_another_master_key() {
    let world = World::with().ingests(0).workers(0).start().await;
    let other = world.connectctl.without("CONNECT_MASTER_KEY").and("CONNECT_MASTER_KEY", OTHER_MASTER_KEY);
    let key = ["key", "create", "--tenant", "acme", "--name", "web", "--scopes", "events:ingest"];
    let subscription = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    for command in [key.as_slice(), &subscription, &["migrate"]] {
        other.assert_refusal(command, "CONNECT_MASTER_KEY differs").await;
    }
    assert_eq!(world.database.count("SELECT count(*) FROM api_keys").await, 1, "the one of the template");
    assert_eq!(world.database.count("SELECT count(*) FROM subscriptions").await, 0);
    // `migrate` does not need the master key.
    world.connectctl.without("CONNECT_MASTER_KEY").json(&["migrate"]).await;
}

#[tokio::test]
async fn migrate_stores_the_canary_of_its_master_key() {
    let database = TestDatabase::empty().await;
    let connectctl = tests::Connectctl::for_database(database.url());
    connectctl.without("CONNECT_MASTER_KEY").json(&["migrate"]).await;
    assert_eq!(database.count(CANARIES).await, 0);
    connectctl.json(&["migrate"]).await;
    assert_eq!(database.count(CANARIES).await, 1);
}
