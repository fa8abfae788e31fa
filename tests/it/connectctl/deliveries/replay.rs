//! `delivery replay ID` (D26).

use super::{dead_letter, deliveries, row, tenant, world};
use crate::connectctl::is_time;
use crate::connectctl::listener::Listener;
use serde_json::json;
use tests::QueuedMessage;
use uuid::Uuid;

#[tokio::test]
async fn replaying_a_dead_delivery_restarts_it_under_its_id_and_removes_its_dead_letter() {
    let (world, subscription) = world().await;
    let acme = tenant(&world, "acme").await;
    let ids = deliveries(&world, "acme", subscription, "dead", 3, "2026-05-01T10:00:00Z").await;
    // The second one has two dead letters: a command that crashed after replaying it has left the older one.
    let dead = [ids[0], ids[1], ids[2], ids[1]].map(|id| dead_letter(acme, id, subscription));
    world.queues.publish_all("webhooks.dead", &dead).await;
    world.queues.publish_message("webhooks.dead", &QueuedMessage::new(b"{}")).await;
    let mut listener = Listener::to(&world.database, "connect_parked").await;

    let replayed = world.connectctl.json(&["delivery", "replay", &ids[1].to_string()]).await;
    assert_eq!((&replayed["id"], &replayed["state"]), (&json!(ids[1]), &json!("pending")));
    assert!(is_time(&replayed["nextAttemptAt"]), "{replayed}");
    let stored = row(&world, ids[1]).await;
    assert_eq!((&stored["attempts"], &stored["attempts_before"]), (&json!(6), &json!(6)));
    assert!(stored["parked_at"].is_string() && stored["parked_at"] == stored["next_attempt_at"], "{stored}");
    listener.until_notified().await;

    for id in [ids[0], ids[2]] {
        assert_eq!(row(&world, id).await["state"], "dead", "the others stay");
    }
    let left = world.queues.take_all("webhooks.dead").await;
    assert_eq!(left.len(), 3);
    for (letter, id) in left.iter().zip([ids[0], ids[2]]) {
        assert_eq!(letter.meta_field("deliveryId"), json!(id), "in their order");
    }
    assert_eq!(left[2].body, b"{}", "foreign messages are left alone");
}

#[tokio::test]
async fn replays_a_delivered_delivery_but_not_a_pending_or_dropped_one() {
    let (world, subscription) = world().await;
    let of =
        async |state| deliveries(&world, "acme", subscription, state, 1, "2026-05-01T10:00:00Z").await[0];
    let delivered = of("delivered").await;
    assert_eq!(
        world.connectctl.json(&["delivery", "replay", &delivered.to_string()]).await["state"],
        "pending"
    );
    for (id, state) in
        [(delivered, "pending"), (of("pending").await, "pending"), (of("dropped").await, "dropped")]
    {
        let before = row(&world, id).await;
        let refusal = world.connectctl.refusal(&["delivery", "replay", &id.to_string()]).await;
        assert_eq!(refusal.trim(), format!("connectctl: delivery {id} cannot be replayed: it is {state}"));
        assert_eq!(row(&world, id).await, before);
    }
}

#[tokio::test]
async fn a_dead_delivery_of_a_removed_subscription_is_not_replayed() {
    let (world, subscription) = world().await;
    let id = deliveries(&world, "acme", subscription, "dead", 1, "2026-05-01T10:00:00Z").await[0];
    // By an operator who was interrupted before the deliveries were dropped.
    world.database.execute("UPDATE subscriptions SET removed_at = now()").await;
    let refusal = world.connectctl.refusal(&["delivery", "replay", &id.to_string()]).await;
    assert!(refusal.contains("subscription was removed"), "{refusal}");
    assert_eq!(row(&world, id).await["state"], "dead");
    let all = world.connectctl.json(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    assert_eq!(all, json!({"matched": 0, "replayed": 0}));
}

#[tokio::test]
async fn without_the_broker_nothing_is_replayed() {
    let (world, subscription) = world().await;
    let id = deliveries(&world, "acme", subscription, "dead", 1, "2026-05-01T10:00:00Z").await[0].to_string();
    let replay = ["delivery", "replay", &id];
    let missing = world.connectctl.without("AMQP_URL").refusal(&replay).await;
    assert!(missing.contains("AMQP_URL"), "{missing}");
    let away = world.connectctl.without("AMQP_URL").and("AMQP_URL", "amqp://guest:hunter2@127.0.0.1:1/%2f");
    let away = away.refusal(&replay).await;
    assert!(away.contains("the broker cannot be reached") && !away.contains("hunter2"), "{away}");
    assert_eq!(row(&world, id.parse::<Uuid>().expect("a UUID")).await["state"], "dead");
}
