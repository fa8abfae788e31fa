//! What was emitted is delivered, waiting, dead-lettered or dropped: the gauge of deliveries that are none of these is 0
//! until a row is lost, also after the event types of a subscription were changed.

use super::OutboundWorld;
use tests::Behavior;

const UNACCOUNTED: &str = "connect_webhook_unaccounted_deliveries";

#[tokio::test]
async fn every_delivery_is_accounted_for_until_its_row_is_removed() {
    let mut outbound = OutboundWorld::start().await;
    outbound.world.set("CONNECT_WEBHOOK_ATTEMPTS", "1");
    outbound.world.dispatchers.clear();
    let delivered = outbound.subscribe("/delivered", &[]).await;
    outbound.subscribe("/dead", &[]).await;
    outbound.receiver.respond("/dead", Behavior::status(500));
    let paused = outbound.subscribe("/paused", &[]).await;
    outbound.change_subscription("pause", &paused).await;
    let removed = outbound.subscribe("/removed", &[]).await;
    outbound.subscribe("/other", &["--events", "proposal.sent"]).await;
    let database = &outbound.world.database;
    database.execute("UPDATE subscriptions SET created_at = created_at - interval '1 hour'").await;
    outbound.open_lead().await;
    outbound.change_subscription("remove", &removed).await;
    outbound.world.add_dispatcher().await;
    for (state, count) in [("delivered", 1), ("dead", 1), ("pending", 1)] {
        outbound.until_deliveries(state, count).await;
    }
    outbound.until_metric(UNACCOUNTED, &[], 0.0).await;

    let remove = format!("DELETE FROM deliveries WHERE subscription_id = '{}'", delivered.id);
    outbound.world.database.execute(&remove).await;
    outbound.until_metric(UNACCOUNTED, &[], 1.0).await;
    outbound.world.dispatchers[0].until_logged("deliveries of relayed events do not exist").await;
}

#[tokio::test]
async fn events_before_a_change_of_the_event_types_are_not_missing() {
    let outbound = OutboundWorld::start().await;
    let widened = outbound.subscribe("/widened", &["--events", "proposal.sent"]).await;
    let database = &outbound.world.database;
    database.execute("UPDATE subscriptions SET created_at = created_at - interval '1 hour'").await;
    outbound.open_lead().await;
    outbound.until_settled().await;
    assert_eq!(database.count("SELECT count(*) FROM outbox WHERE relayed_at IS NOT NULL").await, 1);
    outbound.world.connectctl.json(&["subscription", "events", &widened.id, "--all"]).await;
    // The change lies between the events, more than the settling minute away from each.
    database.execute("UPDATE outbox SET created_at = created_at - interval '10 minutes'").await;
    let earlier =
        "UPDATE subscriptions SET event_types_changed_at = event_types_changed_at - interval '5 minutes'";
    database.execute(earlier).await;
    outbound.open_lead().await;
    outbound.open_lead().await;
    outbound.until_deliveries("delivered", 2).await;

    // The deliveries of the events after the change are missing, and not that of the event before. A comparison that counts the
    // event before shows 1, and 3 from here on.
    database.execute("DELETE FROM deliveries").await;
    outbound.until_metric(UNACCOUNTED, &[], 2.0).await;
}
