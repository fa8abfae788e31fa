//! Checks of the queues and of those who consume them, and of the dispatchers.

use super::{findings, of, until_fixed, until_found};
use tests::{World, event, text};

#[tokio::test]
async fn queues_without_consumers_that_differ_or_fill_up_are_found() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let ctl = world.connectctl.clone();
    let missing = ctl.clone().and("CONNECT_QUEUE_PREFIX", &format!("{}x", world.queues.prefix()));
    let found = findings(&missing, &[]).await;
    for queue in ["events", "events.dead", "records", "crm", "webhooks.dead"] {
        let part = format!("{}x.{queue} does not exist", world.queues.prefix());
        assert!(of(&found, "broker.queues", &part).is_some(), "{part}: {found:?}");
    }
    assert!(of(&findings(&ctl, &[]).await, "broker.queues", "does not exist").is_none());

    for queue in ["events", "records", "crm"] {
        let part = format!("nobody consumes the queue {}.{queue}", world.queues.prefix());
        until_found(&ctl, &[], "error", "broker.queues", &part).await;
    }
    world.queues.publish("records.dead", b"{}").await;
    until_found(&ctl, &[], "warning", "broker.queues", "1 messages wait in").await;
    ctl.json(&["queue", "drop", "records", "--dead", "--yes"]).await;
    world.add_worker().await;
    world.until_ready().await;
    until_fixed(&ctl, &[], "broker.queues", "").await;

    let other = ctl.clone().and("CONNECT_QUEUE_MAX_LENGTH", "7");
    let finding = until_found(&other, &[], "warning", "broker.queues", "has other arguments").await;
    assert!(finding["message"].as_str().is_some_and(|text| text.contains("x-max-length")), "{finding}");
    assert!(of(&findings(&ctl, &[]).await, "broker.queues", "has other arguments").is_none());
}

#[tokio::test]
async fn a_queue_that_fills_up_is_found() {
    let world = World::with().ingests(0).workers(0).set("CONNECT_QUEUE_MAX_LENGTH", "10").start().await;
    for (messages, level) in [(6, "warning"), (3, "error")] {
        for _ in 0..messages {
            world.queues.publish("events", b"{}").await;
        }
        until_found(&world.connectctl, &[], level, "broker.queues", "of at most 10 messages wait").await;
    }
    world.queues.take_all("events").await;
    until_fixed(&world.connectctl, &[], "broker.queues", "of at most 10").await;
}

#[tokio::test]
async fn a_worker_that_hangs_is_found() {
    let world = World::with().set("CONNECT_REPLY_TIMEOUT", "500ms").start().await;
    world.until_ready().await;
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
    let consumed = format!("nobody consumes the queue {}.events", world.queues.prefix());
    until_fixed(&world.connectctl, &[], "broker.queues", &consumed).await;
    world.workers[0].signal("STOP");
    let unreplied = world.send(&[event("contact.identified").email("ben@example.com")]).await;
    unreplied.assert_error(503, "processing_timeout");
    // A busy machine may be late with the first event, too.
    let part = "got 503 processing_timeout: ";
    let finding = until_found(&world.connectctl, &[], "warning", "requests", part).await;
    assert!(text(&finding["fix"]).contains("/readyz of each worker"), "{finding}");
    world.workers[0].signal("CONT");
}

#[tokio::test]
async fn slots_without_a_dispatcher_and_webhooks_that_are_long_due_are_found() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let ctl = world.connectctl.clone();
    // The secret cannot be opened, so that nothing is sent.
    let due = "INSERT INTO subscriptions
            (tenant_id, subscription_id, display_url, url_sealed, secret_sealed, created_at)
        SELECT tenant_id, tenant_id, 'https://example.com', '', '', now() FROM tenants;
        INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number, next_attempt_at)
        SELECT tenant_id, tenant_id, tenant_id, tenant_id, 'pending', now(), 1, now() - interval '1 minute' FROM tenants";
    world.database.execute(due).await;
    until_found(&ctl, &[], "error", "webhooks", "no dispatcher holds 64 of the 64 slots").await;
    world.add_dispatcher().await;
    until_fixed(&ctl, &[], "webhooks", "no dispatcher holds").await;
    assert!(of(&findings(&ctl, &[]).await, "webhooks", "").is_none(), "it may be about to be sent");
    let older = "UPDATE deliveries SET next_attempt_at = now() - interval '9 minutes'";
    world.database.execute(older).await;
    until_found(&ctl, &[], "warning", "webhooks", "minutes and was not sent").await;
    world.database.execute("UPDATE subscriptions SET paused_at = now()").await;
    until_fixed(&ctl, &[], "webhooks", "").await;
}
