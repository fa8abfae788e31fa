//! `/readyz` is 503 while every request would be refused.

use serde_json::Value;
use tests::dedicated_servers::Broker;
use tests::{Behavior, MAX_WAIT, Program, Receiver, World, event, eventually};

pub(super) const OTHER_MASTER_KEY: &str = "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=";

/// Waits until exactly the checks in `missing` fail.
pub(super) async fn until_failing_checks(program: &Program, missing: &[&str]) {
    eventually(&format!("only {missing:?} is missing"), MAX_WAIT, async || {
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
async fn an_ingest_whose_replay_store_cannot_be_written_is_not_ready() {
    let world = World::with().workers(0).start().await;
    let (rename, execute) =
        ("ALTER TABLE replay_entries RENAME COLUMN", "EXECUTE ON FUNCTION make_replay_partition(bigint)");
    for (breaks, fixes) in [
        (format!("{rename} mac TO other"), format!("{rename} other TO mac")),
        (
            "REVOKE INSERT ON replay_entries FROM connect_test_ingest".to_owned(),
            "GRANT INSERT ON replay_entries TO connect_test_ingest".to_owned(),
        ),
        (
            format!("REVOKE {execute} FROM connect_test_ingest"),
            format!("GRANT {execute} TO connect_test_ingest"),
        ),
    ] {
        world.database.execute(&breaks).await;
        until_failing_checks(&world.ingests[0], &["replay_store"]).await;
        world.database.execute(&fixes).await;
        world.ingests[0].until_ready().await;
    }
}

#[tokio::test]
async fn a_program_whose_publishes_are_blocked_is_not_ready_and_keeps_working() {
    let broker = Broker::start().await;
    let mut world = World::with()
        .on_broker(broker.url())
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_REPLY_TIMEOUT", "2s")
        .start()
        .await;
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500));
    world.subscribe(&receiver.url("/hooks")).await;
    let enquiry = |email: &str| event("enquiry.submitted").email(email).name("Ana");
    world.until_ready().await;
    world.accept_with_retries(enquiry("ana@example.com")).await;
    world.end_workers().await;
    world.send(&[enquiry("bo@example.com")]).await.assert_error(503, "processing_timeout");
    broker.allow_memory(1_000_000).await;

    let worker = Program::worker(world.settings()).await;
    until_failing_checks(&worker, &["publishing"]).await;
    assert_eq!(worker.operator_get("/livez").await.expect("it lives").status, 200);
    assert_eq!(world.pipeline(&[]).await.len(), 2, "the queue is worked off");
    // No webhook waits for RabbitMQ.
    world.add_dispatcher().await;
    world.dispatchers[0].until_ready().await;
    receiver.wait_for(1).await;

    broker.allow_memory(2_000_000_000).await;
    worker.until_ready().await;
}
