//! First attempts: their rows, crashes, drains, and an absent broker.

use super::OutboundWorld;
use serde_json::json;
use tests::{Behavior, MAX_WAIT, World, text};

/// Longer than a test takes: no attempt fails because of it.
const TIMEOUT: &str = "600s";

impl OutboundWorld {
    /// With a dispatcher whose attempts do not time out within a test.
    async fn with_long_timeout() -> Self {
        Self::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT)).await
    }
}

#[tokio::test]
async fn a_delivery_is_a_numbered_row_before_its_first_attempt_ends() {
    let outbound = OutboundWorld::with_long_timeout().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(204).held()]);
    outbound.open_lead().await;
    outbound.receiver.wait_for(1).await;
    let [delivery] = &outbound.deliveries(&subscription).await[..] else { panic!("one delivery") };
    assert_eq!((&delivery["state"], &delivery["number"]), (&json!("pending"), &json!(1)));
    assert_eq!(outbound.pending_events().await, 0);
    outbound.receiver.release();
    for _ in 1..10 {
        outbound.open_lead().await;
    }
    outbound.until_deliveries("delivered", 10).await;
    let numbers: Vec<Option<i64>> =
        outbound.deliveries(&subscription).await.iter().map(|delivery| delivery["number"].as_i64()).collect();
    assert_eq!(numbers, (1..=10).map(Some).collect::<Vec<_>>());
    // A success at once is on record in its own row alone.
    assert_eq!(outbound.world.database.count("SELECT count(*) FROM attempts").await, 0);
    assert_eq!(outbound.attempts(&subscription).await.len(), 10);
}

#[tokio::test]
async fn without_a_broker_deliveries_retries_replays_and_tests_go_on_and_notices_are_published_later() {
    let builder = World::with().ingests(0).workers(0).through_proxies();
    let builder = builder.set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT).set("CONNECT_WEBHOOK_ATTEMPTS", "2");
    let outbound = OutboundWorld::start_with(builder).await;
    let dead = outbound.subscribe("/dead", &["--events", "lead.stage_changed"]).await;
    outbound.subscribe("/alive", &["--events", "lead.assigned"]).await;
    outbound.world.proxies().broker.reset_connections();
    outbound.until_metric("connect_broker_connected", &[], 0.0).await;
    outbound.receiver.respond("/dead", Behavior::status(500));
    outbound.receiver.respond_to_next("/alive", [Behavior::status(500)]);
    outbound.insert_outbox_events(3, "lead.stage_changed").await;
    outbound.insert_outbox_events(100, "lead.assigned").await;
    outbound.until_deliveries("delivered", 100).await;
    outbound.until_deliveries("dead", 3).await;
    assert_eq!(outbound.receiver.received_at("/alive").len(), 101, "one was retried");
    let replayed = text(&outbound.deliveries(&dead).await[0]["id"]).to_owned();
    outbound.receiver.respond("/dead", Behavior::status(204));
    outbound.world.connectctl.json(&["delivery", "replay", &replayed]).await;
    outbound.until_deliveries("delivered", 101).await;
    let job = ["delivery", "replay", "--tenant", "acme", "--event-type", "lead.assigned"];
    assert_eq!(outbound.world.connectctl.json(&job).await["replayed"], 100);
    outbound.until_deliveries("delivered", 101).await;
    assert_eq!(outbound.receiver.received_at("/alive").len(), 201);
    let tested = outbound.world.connectctl.json(&["subscription", "test", &dead.id]).await;
    assert_eq!(tested["state"], "delivered");

    // The notices of those that are still dead wait in the database until there is a broker.
    let waiting = "SELECT count(*) FROM deliveries WHERE needs_notice";
    assert_eq!(outbound.world.database.count(waiting).await, 2);
    outbound.until_metric("connect_broker_connected", &[], 0.0).await;
    outbound.world.proxies().broker.restore();
    outbound.world.database.until_count(waiting, 0).await;
    let told = outbound.world.connectctl.list(&["queue", "show", "webhooks", "--dead"]).await;
    for one in outbound.deliveries(&dead).await.iter().filter(|one| one["state"] == "dead") {
        assert!(told.iter().any(|notice| notice["deliveryId"] == one["id"]), "{one} is not in {told:?}");
    }
}

#[tokio::test]
async fn a_drain_records_attempts_under_way_and_leaves_the_rest_to_the_next() {
    let settings = World::with().set("CONNECT_SHUTDOWN_TIMEOUT", "600s").set("CONNECT_WEBHOOK_TIMEOUT", TIMEOUT);
    let mut outbound = OutboundWorld::start_with(settings).await;
    outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/hooks", [Behavior::status(204).held()]);
    // A receiver without a history gets few attempts at a time: the others wait in the database.
    outbound.insert_outbox_events(30, "lead.assigned").await;
    outbound.receiver.wait_for(1).await;
    outbound.world.dispatchers[0].signal("TERM");
    outbound.world.dispatchers[0].until_unready().await;
    outbound.receiver.release();
    assert_eq!(outbound.world.dispatchers[0].until_ended(MAX_WAIT).await.code(), Some(0));
    assert!(outbound.count("delivered").await >= 1, "what had begun is on record");

    outbound.world.restart_dispatcher().await;
    outbound.until_deliveries("delivered", 30).await;
    outbound.until_settled().await;
    assert_eq!(outbound.receiver.count(), 30, "nothing is repeated");
}
