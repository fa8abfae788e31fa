//! `/readyz` says no where every request would be refused.

use serde_json::Value;
use tests::{PATIENCE, Program, World, eventually};

const OTHER_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

/// Waits until the program lacks exactly `missing`.
async fn until_lacking(program: &Program, missing: &[&str]) {
    eventually(&format!("only {missing:?} is missing"), PATIENCE, async || {
        let says = program.until_unready().await;
        let checks = says["checks"].as_object().expect("checks");
        let lacking: Vec<&str> = checks
            .iter()
            .filter(|(_, there)| **there == Value::Bool(false))
            .map(|(name, _)| name.as_str())
            .collect();
        if lacking == missing { Ok(()) } else { Err(says.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_program_with_another_master_key_is_not_ready() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let create = ["subscription", "create", "--tenant", "acme", "--url", "https://1.1.1.1/hooks"];
    world.connectctl.json(&create).await;
    world.set("CONNECT_MASTER_KEY", OTHER_MASTER_KEY);
    for name in ["connect-ingest", "connect-dispatcher"] {
        let mut program = Program::spawn(name, world.settings());
        program.until_listening().await;
        until_lacking(&program, &["master_key"]).await;
    }
}

#[tokio::test]
async fn an_ingest_whose_replay_store_cannot_be_written_is_not_ready() {
    let world = World::with().workers(0).start().await;
    world.database.execute("ALTER TABLE replay_entries RENAME COLUMN mac TO other").await;
    until_lacking(&world.ingests[0], &["replay_store"]).await;
    world.database.execute("ALTER TABLE replay_entries RENAME COLUMN other TO mac").await;
    world.ingests[0].until_ready().await;
}
