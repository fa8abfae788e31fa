//! A database that was restored, beside a broker that is empty, older or newer (docs/restore.md).

mod empty_broker;
mod newer_broker;
mod older_broker;

use std::path::PathBuf;
use tests::{Behavior, Receiver, World, WorldBuilder, event, text};

/// A world with a dispatcher and a subscription of `receiver`, whose first attempts fail.
async fn world(builder: WorldBuilder, receiver: &Receiver) -> World {
    receiver.respond_to_all(Behavior::status(500));
    let world = builder
        .dispatchers(1)
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_ATTEMPTS", "100")
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "1s")
        .set("CONNECT_WEBHOOK_BACKOFF_CAP", "1s")
        .start()
        .await;
    world.subscribe(&receiver.url("/hooks")).await;
    world
}

/// Starts one of each program. The worker declares the queues, which ingest may not.
async fn start_programs(world: &mut World) {
    world.add_worker().await;
    world.add_ingest().await;
    world.add_dispatcher().await;
    world.until_ready().await;
}

/// Sends an event that no worker applies, and waits until it is in the queue.
async fn leave_in_queue(world: &mut World, event: &tests::Event) {
    world.end_workers().await;
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.send(std::slice::from_ref(event)).await.assert_error(503, "processing_timeout");
    world.until_depth("events", 1).await;
}

/// An enquiry of a person of that name.
fn enquiry(name: &str) -> tests::Event {
    event("enquiry.submitted").email(&format!("{name}@example.com"))
}

/// A file for a dump, which does not exist yet.
fn dump_file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("connect-{}-{name}.dump", std::process::id()))
}

/// The ids of the events that the receiver got, each once, sorted.
fn received(receiver: &Receiver) -> Vec<String> {
    let events = receiver.received();
    let mut ids: Vec<String> = events.iter().map(|one| text(&one.json()["eventId"]).to_owned()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The ids of the applied events and actions, sorted.
async fn applied(world: &World) -> Vec<String> {
    let rows = world.database.rows("SELECT event_id FROM event_ledger ORDER BY event_id", &[]).await;
    rows.iter().map(|row| text(&row["event_id"]).to_owned()).collect()
}
