//! `/readyz` says no where every request would be refused.

use serde_json::Value;
use tests::private::Broker;
use tests::{Behaviour, PATIENCE, Program, Receiver, World, event, eventually};

pub(super) const OTHER_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

/// Waits until the program lacks exactly `missing`.
pub(super) async fn until_lacking(program: &Program, missing: &[&str]) {
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
    for (name, lacking) in [
        ("connect-ingest", ["master_key"].as_slice()),
        ("connect-worker", &["consuming", "master_key"]),
        ("connect-dispatcher", &["consuming", "master_key"]),
    ] {
        let mut program = Program::spawn(name, world.settings());
        program.until_listening().await;
        until_lacking(&program, lacking).await;
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

#[tokio::test]
async fn a_program_whose_messages_the_broker_does_not_take_is_not_ready_and_goes_on_working() {
    let broker = Broker::start().await;
    let mut world = World::with()
        .on_broker(broker.url())
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_REPLY_TIMEOUT", "2s")
        .start()
        .await;
    let receiver = Receiver::http();
    receiver.answer_all(Behaviour::status(500));
    let create = ["subscription", "create", "--tenant", "acme", "--url", &receiver.url("/hooks")];
    world.connectctl.json(&create).await;
    let enquiry = |email: &str| event("enquiry.submitted").email(email).name("Ana");
    world.until_ready().await;
    world.accept_in_time(enquiry("ana@example.com")).await;
    world.end_workers().await;
    world.send(&[enquiry("bo@example.com")]).await.assert_error(503, "processing_timeout");
    broker.control(&["set_vm_memory_high_watermark", "absolute", "1MB"]).await;

    // A reply, and the message of a second attempt.
    let mut programs =
        ["connect-worker", "connect-dispatcher"].map(|name| Program::spawn(name, world.settings()));
    for program in &mut programs {
        program.until_listening().await;
        until_lacking(program, &["publishing"]).await;
        assert_eq!(program.operator_get("/livez").await.expect("it lives").status, 200);
    }
    assert_eq!(world.pipeline(&[]).await.len(), 2, "the queue is worked off");
    receiver.wait_for(1).await;

    broker.control(&["set_vm_memory_high_watermark", "absolute", "2GB"]).await;
    for program in &programs {
        program.until_ready().await;
    }
}
