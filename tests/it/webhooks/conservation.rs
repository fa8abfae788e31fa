//! What was emitted is delivered, waiting, dead-lettered or dropped: the gauge of deliveries that are none of these is 0
//! until a row is lost.

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
