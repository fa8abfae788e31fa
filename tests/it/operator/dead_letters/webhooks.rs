//! `queue requeue webhooks`: through the database.

use super::{until_dead, world};
use crate::connectctl::deliveries::tenant;
use serde_json::{Value, json};
use tests::{Behavior, QueuedMessage, Receiver, World, event, text};
use uuid::Uuid;

/// A delivery of `slug` in that state, and its notice.
async fn dead(world: &World, slug: &str, state: &str) -> (Uuid, QueuedMessage) {
    let tenant = tenant(world, slug).await;
    let create = ["subscription", "create", "--tenant", slug, "--url", "https://1.1.1.1/hooks"];
    let made = world.connectctl.json(&create).await;
    let subscription: Uuid = text(&made["id"]).parse().expect("a UUID");
    let (delivery, event) = (Uuid::now_v7(), Uuid::now_v7());
    let insert = "INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, attempts, number, next_attempt_at)
        VALUES ($1, $2, $3, $4, $5, now(), 6, 1, CASE $5 WHEN 'pending' THEN now() END)";
    let client = world.database.connect().await;
    client.execute(insert, &[&tenant, &delivery, &event, &subscription, &state]).await.expect("a row");
    let meta = json!({"tenantId": tenant, "deliveryId": delivery, "subscriptionId": subscription, "eventId": event,
        "eventType": "lead.assigned", "attempt": 6, "publishedAt": "2026-05-01T10:00:00Z"});
    (delivery, QueuedMessage::new(b"{}").with_meta(&meta.to_string()))
}

async fn state(world: &World, delivery: Uuid) -> Value {
    let query = "SELECT state, attempts_before FROM deliveries WHERE delivery_id = $1";
    world.database.rows(query, &[&delivery]).await.remove(0)
}

#[tokio::test]
async fn replays_dead_deliveries_of_all_tenants_and_removes_their_notices() {
    let world = world().await;
    world.add_tenant("zeta").await;
    let (acme, of_acme) = dead(&world, "acme", "dead").await;
    let (zeta, of_zeta) = dead(&world, "zeta", "dead").await;
    let (_, delivered_since) = dead(&world, "acme", "delivered").await;
    let (pending, on_its_way) = dead(&world, "acme", "pending").await;
    let unknown = QueuedMessage::new(b"not ours");
    let letters = [of_acme.clone(), unknown, of_zeta, delivered_since, on_its_way, of_acme];
    world.queues.publish_all("webhooks.dead", &letters).await;

    let ran = world.connectctl.run(&["queue", "requeue", "webhooks", "--dead"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.errors.contains("replayed as deliveries"), "{ran:?}");
    for delivery in [acme, zeta] {
        assert_eq!(state(&world, delivery).await, json!({"state": "pending", "attempts_before": 6}));
    }
    assert_eq!(state(&world, pending).await, json!({"state": "pending", "attempts_before": 0}), "left alone");
    let left = world.queues.take_all("webhooks.dead").await;
    assert_eq!((left.len(), left[0].body.as_slice()), (1, b"not ours".as_slice()));
}

#[tokio::test]
async fn counts_requeued_kept_and_removed_webhooks() {
    let world = world().await;
    let (first, of_first) = dead(&world, "acme", "dead").await;
    let (second, of_second) = dead(&world, "acme", "dead").await;
    let (_, dropped_since) = dead(&world, "acme", "dropped").await;
    world.queues.publish_all("webhooks.dead", &[dropped_since, of_first, of_second]).await;
    let requeue = ["queue", "requeue", "webhooks", "--dead", "--limit", "2"];
    assert_eq!(world.connectctl.json(&requeue).await, json!({"requeued": 1, "kept": 0, "removed": 1}));
    assert_eq!(state(&world, first).await["state"], "pending");
    assert_eq!(state(&world, second).await["state"], "dead", "beyond the limit");
    assert_eq!(world.connectctl.json(&requeue).await, json!({"requeued": 1, "kept": 0, "removed": 0}));
}

#[tokio::test]
async fn a_dead_delivery_can_be_replayed_after_its_notice_was_dropped() {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let world = builder.set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500));
    world.subscribe(&receiver.url("/hooks")).await;
    world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    until_dead(&world, "webhooks", 1).await;
    let shown = world.connectctl.list(&["queue", "show", "webhooks", "--dead"]).await;
    let delivery = receiver.wait_for(1).await.remove(0).header("x-connect-delivery").to_owned();
    assert_eq!(shown[0]["deliveryId"], delivery, "{shown:?}");
    assert_eq!(shown[0]["why"], "all attempts failed: see connectctl delivery show");
    assert_eq!((&shown[0]["reason"], &shown[0]["mac"]), (&json!("status 500"), &json!("valid")));

    let drop = ["queue", "drop", "webhooks", "--dead", "--yes"];
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 1}));
    receiver.respond_to_all(Behavior::status(200));
    world.connectctl.json(&["delivery", "replay", &delivery]).await;
    let received = receiver.wait_for(2).await;
    assert_eq!(received[1].header("x-connect-delivery"), delivery);
    assert_eq!(world.queues.depth("webhooks.dead").await, 0);
}
