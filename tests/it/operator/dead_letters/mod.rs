//! `connectctl queue`: dead letters, made by a real worker from messages that it can't handle.

mod drop;
mod list;
mod requeue;
mod show;
mod webhooks;

use serde_json::{Value, json};
use tests::{PATIENCE, QueuedMessage, World, eventually};
use uuid::Uuid;

/// A world with a worker whose queues are there.
async fn world() -> World {
    let world = World::with().ingests(0).start().await;
    world.workers[0].until_ready().await;
    world
}

async fn until_dead(world: &World, queue: &str, count: u32) {
    let dead = format!("{queue}.dead");
    eventually("the messages are dead", PATIENCE, async || match world.queues.depth(&dead).await {
        depth if depth == count => Ok(()),
        depth => Err(format!("{depth} of {count}")),
    })
    .await;
}

/// Metadata as ingest gives it to a batch of `acme`.
async fn batch_meta(world: &World) -> Value {
    let rows = world.database.rows("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[]).await;
    let caller = json!({"tenant_id": rows[0]["tenant_id"], "tenant": "acme", "key": world.key.prefix,
        "scopes": ["events:ingest"], "origin": null});
    json!({"requestId": Uuid::now_v7(), "caller": caller, "publishedAt": "2026-05-01T10:00:00Z", "events": 1})
}

/// Messages that no worker can read, each known by its body.
fn poison(count: usize) -> Vec<QueuedMessage> {
    (0..count).map(|at| QueuedMessage::new(format!("{at:06} ana@example.com").as_bytes())).collect()
}

fn bodies(messages: &[QueuedMessage]) -> Vec<String> {
    messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
}
