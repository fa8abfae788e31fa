//! Subscriptions that are paused, resumed and removed while deliveries are pending (D24).

use super::{OutboundWorld, Subscription};
use tests::{Behavior, World, text};

/// Creates a subscription at `/one` with an attempt under way that will fail, and one at `/other` that always succeeds.
async fn with_an_attempt_under_way(outbound: &OutboundWorld) -> Subscription {
    let subscription = outbound.subscribe("/one", &[]).await;
    outbound.subscribe("/other", &[]).await;
    outbound.receiver.hold();
    outbound.receiver.respond_to_next("/one", [Behavior::status(500).held()]);
    outbound.open_lead().await;
    outbound.receiver.wait_for_at("/one", 1).await;
    subscription
}

#[tokio::test]
async fn deliveries_of_a_paused_subscription_wait_until_it_is_resumed() {
    let mut outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_BACKOFF_BASE", "500ms")).await;
    let subscription = with_an_attempt_under_way(&outbound).await;
    outbound.change_subscription("pause", &subscription).await;
    outbound.open_lead().await;
    outbound.receiver.release();
    // One was attempted, the other was never sent.
    outbound.until_pending(&subscription, 2).await;
    outbound.receiver.wait_for_at("/other", 2).await;

    // The pause also holds for another dispatcher and for later events.
    outbound.world.dispatchers[0].terminate().await;
    outbound.world.restart_dispatcher().await;
    outbound.open_lead().await;
    outbound.receiver.wait_for_at("/other", 3).await;
    outbound.until_pending(&subscription, 3).await;
    assert_eq!(outbound.receiver.received_at("/one").len(), 1, "nothing is sent while it is paused");
    outbound.until_metric("connect_webhook_deliveries", &[("state", "pending")], 3.0).await;

    outbound.change_subscription("resume", &subscription).await;
    outbound.until_settled().await;
    let received = outbound.receiver.received_at("/one");
    assert_eq!(received.len(), 4);
    let made: Vec<i64> = outbound
        .deliveries(&subscription)
        .await
        .iter()
        .map(|delivery| delivery["attempts"].as_i64().expect("a number"))
        .collect();
    assert_eq!(made, [2, 1, 1], "the attempt before the pause counts");
    assert!(received.iter().all(|webhook| webhook.verify(&subscription.secret).is_ok()));
    let first = received[0].header("x-connect-delivery");
    assert_eq!(received.iter().filter(|webhook| webhook.header("x-connect-delivery") == first).count(), 2);
}

#[tokio::test]
async fn deliveries_of_a_removed_subscription_are_dropped() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_BACKOFF_BASE", "500ms")).await;
    let waiting = outbound.subscribe("/waiting", &[]).await;
    outbound.change_subscription("pause", &waiting).await;
    let failing = with_an_attempt_under_way(&outbound).await;
    outbound.until_pending(&waiting, 1).await;
    outbound.change_subscription("remove", &failing).await;
    // A command that was killed has dropped nothing itself.
    let remove = format!("UPDATE subscriptions SET removed_at = now() WHERE subscription_id = '{}'", waiting.id);
    outbound.world.database.execute(&remove).await;
    outbound.receiver.release();
    outbound.until_deliveries("dropped", 2).await;
    outbound.open_lead().await;
    outbound.until_settled().await;
    let count = |path| outbound.receiver.received_at(path).len();
    assert_eq!((count("/one"), count("/waiting"), count("/other")), (1, 0, 2));
    for (subscription, attempts) in [(&failing, 1), (&waiting, 0)] {
        let [dropped] = &outbound.deliveries(subscription).await[..] else { panic!("one delivery each") };
        assert_eq!(text(&dropped["state"]), "dropped");
        assert_eq!(outbound.attempts(subscription).await.len(), attempts, "what was tried is on record");
    }
    outbound.world.until_depth("webhooks.dead", 0).await;
    outbound.until_metric("connect_webhook_deliveries", &[("state", "pending")], 0.0).await;

    // Those of many removed subscriptions leave connections to what is sent.
    outbound.insert_subscriptions(20, |_| outbound.receiver.url_by_name("/many")).await;
    let database = &outbound.world.database;
    let change = |set: &str| format!("UPDATE subscriptions SET {set} WHERE display_url = 'https://localhost'");
    database.execute(&change("paused_at = now()")).await;
    outbound.open_lead_until("pending", 20).await;
    let locked = database.begin("LOCK TABLE deliveries IN EXCLUSIVE MODE").await;
    database.execute(&change("removed_at = now()")).await;
    let waiting = "wait_event_type = 'Lock' AND query LIKE '%deliveries.drop_pending%'";
    database.until_sessions(waiting, 1).await;
    outbound.open_lead().await;
    let waiting = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND {waiting}");
    assert_eq!(database.count(&waiting).await, 1, "the others wait for this one");
    locked.batch_execute("COMMIT").await.expect("no lock");
    outbound.until_deliveries("dropped", 22).await;
    outbound.until_settled().await;
}

#[tokio::test]
async fn dead_lettered_deliveries_of_a_removed_subscription_are_dropped() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_ATTEMPTS", "1")).await;
    let failing = outbound.subscribe("/one", &[]).await;
    outbound.receiver.respond("/one", Behavior::status(500));
    outbound.open_lead_until("dead", 1).await;
    outbound.world.until_depth("webhooks.dead", 1).await;
    outbound.change_subscription("remove", &failing).await;
    assert_eq!((outbound.count("dead").await, outbound.count("dropped").await), (0, 1));
    // Those that an interrupted run has left are dropped by another run.
    outbound.world.database.execute("UPDATE deliveries SET state = 'dead'").await;
    outbound.change_subscription("remove", &failing).await;
    assert_eq!(outbound.count("dropped").await, 1);
    let report = outbound.world.connectctl.json(&["queue", "requeue", "webhooks", "--dead"]).await;
    assert_eq!((&report["requeued"], &report["kept"]), (&0.into(), &0.into()), "{report}");
    outbound.world.until_depth("webhooks.dead", 0).await;
    assert_eq!(outbound.receiver.received_at("/one").len(), 1, "nothing more is sent");
}

#[tokio::test]
async fn an_attempt_under_way_succeeds_after_its_subscription_was_paused_or_removed() {
    let outbound = OutboundWorld::shared().await;
    let (paused, removed) = (outbound.subscribe("/paused", &[]).await, outbound.subscribe("/removed", &[]).await);
    outbound.receiver.hold();
    outbound.receiver.respond_to_all(Behavior::status(200).held());
    outbound.open_lead().await;
    outbound.receiver.wait_for(2).await;
    outbound.change_subscription("pause", &paused).await;
    outbound.change_subscription("remove", &removed).await;
    outbound.receiver.release();
    outbound.until_deliveries("delivered", 2).await;
}

#[tokio::test]
async fn a_subscriber_receives_only_events_after_it_subscribed() {
    let outbound = OutboundWorld::shared().await;
    outbound.subscribe("/old", &[]).await;
    outbound.open_lead_until("delivered", 1).await;
    let new = outbound.subscribe("/new", &[]).await;
    let later = outbound.open_lead_until("delivered", 3).await;
    let [webhook] = &outbound.receiver.received_at("/new")[..] else { panic!("one webhook") };
    assert_eq!(webhook.json()["payload"]["leadId"], later["leadId"]);
    assert_eq!((webhook.verify(&new.secret), outbound.receiver.received_at("/old").len()), (Ok(()), 2));
}
