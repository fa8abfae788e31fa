//! `delivery`: on rows as the dispatcher writes them.

mod list;
mod replay;
mod replay_job;
mod summary;

use chrono::DateTime;
use serde_json::Value;
use tests::{World, text};
use uuid::{Timestamp, Uuid};

/// A world without programs, and a subscription of `acme`.
async fn world() -> (World, Uuid) {
    let world = World::with().ingests(0).workers(0).start().await;
    let subscription = subscribe(&world, "acme").await;
    (world, subscription)
}

/// The shared world, with a subscription of `acme`.
async fn joined() -> (World, Uuid) {
    let world = World::shared().await;
    let subscription = subscribe(&world, "acme").await;
    (world, subscription)
}

async fn subscribe(world: &World, tenant: &str) -> Uuid {
    let create = ["subscription", "create", "--tenant", tenant, "--url", "https://1.1.1.1/hooks"];
    let made = world.connectctl.json(&create).await;
    text(&made["id"]).parse().expect("a UUID")
}

pub(crate) async fn tenant(world: &World, slug: &str) -> Uuid {
    let rows =
        world.database.rows("SELECT tenant_id FROM tenants WHERE slug = $1", &[&tests::slug(slug)]).await;
    text(&rows[0]["tenant_id"]).parse().expect("a UUID")
}

/// Writes `count` deliveries of an tenant in one state, each of an event of its own, made at `created_at` or a second
/// after the one before, as their ids say, too. A finished one has six attempts. Gives their ids, oldest first.
pub(crate) async fn deliveries(
    world: &World,
    slug: &str,
    subscription: Uuid,
    state: &str,
    count: i32,
    created_at: &str,
) -> Vec<Uuid> {
    let tenant = tenant(world, slug).await;
    let made = DateTime::parse_from_rfc3339(created_at).expect("a time").timestamp().unsigned_abs();
    let at = |second: i32| Timestamp::from_unix_time(made + u64::from(second.unsigned_abs()), 0, 0, 0);
    let ids: Vec<Uuid> = (0..count).map(|second| Uuid::new_v7(at(second))).collect();
    let events: Vec<Uuid> = (0..count).map(|second| Uuid::new_v7(at(second))).collect();
    let client = world.database.connect().await;
    let outbox = "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
        SELECT $1, unnest($2::uuid[]), 'lead.assigned', 'crm', '{}', now()";
    client.execute(outbox, &[&tenant, &events]).await.expect("outbox rows");
    let pending = "INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, next_attempt_at, attempts, number)
        SELECT $1, delivery_id, event_id, $4, $5, $6::text::timestamptz + (at - 1) * interval '1 second',
            CASE WHEN $5 = 'pending' THEN now() END, CASE WHEN $5 = 'pending' THEN 0 ELSE 6 END,
            at + (SELECT count(*) FROM deliveries d WHERE d.subscription_id = $4)
        FROM unnest($2::uuid[], $3::uuid[]) WITH ORDINALITY AS given (delivery_id, event_id, at)";
    client
        .execute(pending, &[&tenant, &ids, &events, &subscription, &state, &created_at])
        .await
        .expect("rows");
    ids
}

async fn row(world: &World, id: Uuid) -> Value {
    let query = "SELECT state, attempts, attempts_before, needs_notice, next_attempt_at FROM deliveries WHERE delivery_id = $1";
    let mut rows = world.database.rows(query, &[&id]).await;
    assert_eq!(rows.len(), 1, "delivery {id}");
    rows.remove(0)
}

async fn count(world: &World, state: &str) -> i64 {
    world.database.count(&format!("SELECT count(*) FROM deliveries WHERE state = '{state}'")).await
}
