//! `connectctl queue`: on dead letters of a real worker.

mod drop;
mod list;
mod requeue;
mod show;
mod webhooks;

use serde_json::{Value, json};
use tests::{MAX_WAIT, QueuedMessage, World, eventually};
use uuid::Uuid;

/// A world with a worker, which has declared the queues.
async fn world() -> World {
    let world = World::with().ingests(0).start().await;
    world.workers[0].until_ready().await;
    world
}

async fn until_dead(world: &World, queue: &str, count: u32) {
    let dead = format!("{queue}.dead");
    // The broker takes some milliseconds for each.
    let within = MAX_WAIT * 3;
    eventually("the messages are dead-lettered", within, async || match world.queues.depth(&dead).await {
        depth if depth == count => Ok(()),
        depth => Err(format!("{depth} of {count}")),
    })
    .await;
}

/// The metadata of a batch of `acme`, as ingest writes it.
async fn batch_meta(world: &World) -> Value {
    let rows = world.database.rows("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[]).await;
    let caller = json!({"tenant_id": rows[0]["tenant_id"], "tenant": "acme", "key": world.key.prefix,
        "scopes": ["events:ingest"], "origin": null});
    json!({"requestId": Uuid::now_v7(), "caller": caller, "publishedAt": "2026-05-01T10:00:00Z", "events": 1})
}

/// Messages that no worker can read, each with a different body.
fn poison(count: u32) -> Vec<QueuedMessage> {
    (0..count).map(|at| QueuedMessage::new(format!("{at:06} ana@example.com").as_bytes())).collect()
}

fn bodies(messages: &[QueuedMessage]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
}
