//! `delivery replay ID` (D26).

use super::{deliveries, row, world};
use crate::connectctl::is_time;
use crate::connectctl::listener::Listener;
use serde_json::json;

#[tokio::test]
async fn replaying_a_dead_delivery_restarts_it_under_its_id_without_a_broker() {
    let (world, subscription) = world().await;
    let ids = deliveries(&world, "acme", subscription, "dead", 3, "2026-05-01T10:00:00Z").await;
    world.database.execute("UPDATE deliveries SET needs_notice = true").await;
    let mut listener = Listener::to(&world.database, "connect_deliveries").await;

    let connectctl = world.connectctl.without("AMQP_URL");
    let replayed = connectctl.json(&["delivery", "replay", &ids[1].to_string()]).await;
    assert_eq!((&replayed["id"], &replayed["state"]), (&json!(ids[1]), &json!("pending")));
    assert!(is_time(&replayed["nextAttemptAt"]), "{replayed}");
    let stored = row(&world, ids[1]).await;
    assert_eq!(
        (&stored["attempts"], &stored["attempts_before"], &stored["needs_notice"]),
        (&json!(6), &json!(6), &json!(false))
    );
    listener.until_notified().await;
    for id in [ids[0], ids[2]] {
        assert_eq!(row(&world, id).await["state"], "dead", "the others stay");
    }
}

#[tokio::test]
async fn replays_a_delivered_delivery_but_no_pending_or_dropped_one_and_none_of_a_removed_subscription() {
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
    let dead = of("dead").await;
    // By an operator who was interrupted before the deliveries were dropped.
    world.database.execute("UPDATE subscriptions SET removed_at = now()").await;
    let refusal = world.connectctl.refusal(&["delivery", "replay", &dead.to_string()]).await;
    assert!(refusal.contains("subscription was removed"), "{refusal}");
    assert_eq!(row(&world, dead).await["state"], "dead");
    let all = world.connectctl.json(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    assert_eq!(all, json!({"matched": 0, "replayed": 0}));
}
