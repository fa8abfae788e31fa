//! Outbound events that are not relayed, and receivers that do not accept them.

use super::{until_fires, watch, watched};
use std::time::Duration;
use tests::{Behavior, Event, MASTER_KEY, Program, Receiver, World, event};

/// What causes a webhook.
fn enquiry_submitted() -> Event {
    event("enquiry.submitted").email("ana@example.com")
}

#[tokio::test]
async fn outbox_stuck_and_no_consumers_fire_without_a_dispatcher() {
    let (mut world, prometheus) = watched(World::with()).await;
    assert_eq!(world.dispatchers.remove(0).terminate().await.code(), Some(0));
    world.accept(enquiry_submitted()).await;

    prometheus.until_firing("ConnectOutboxStuck", &[]).await;
    prometheus.until_firing("ConnectNoConsumers", &[("queue", "webhooks")]).await;
    prometheus.until_firing("ConnectProgramMissing", &[("job", "connect-dispatcher")]).await;

    world.add_dispatcher().await;
    prometheus.watch(&world);
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_dispatcher_without_the_broker_fires_and_still_delivers() {
    let builder = World::with().through_proxies().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.ingests(0).workers(0).dispatchers(1).start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    // Of the proxies only the dispatcher's stays in the way.
    let direct = world.queues.url().to_owned();
    world.set("AMQP_URL", &direct);
    world.add_ingest().await;
    world.add_worker().await;
    let prometheus = watch(&world).await;
    world.proxies().broker.reset_connections();
    prometheus.until_firing("ConnectBrokerDisconnected", &[("job", "connect-dispatcher")]).await;
    world.accept(enquiry_submitted()).await;
    receiver.wait_for(1).await;

    world.proxies().broker.restore();
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_stuck_relay_leader_fires_outbox_stuck() {
    let builder = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    // Like a leader that is alive but stuck.
    let leader = world.database.connect().await;
    let lock = format!("SELECT pg_advisory_lock({})", i64::from_be_bytes(*b"webhooks"));
    leader.batch_execute(&lock).await.expect("the lock of the relay");
    world.add_dispatcher().await;
    let prometheus = watch(&world).await;
    world.accept(enquiry_submitted()).await;
    prometheus.until_firing("ConnectOutboxStuck", &[]).await;
    assert_eq!(receiver.count(), 0);

    drop(leader);
    receiver.wait_for(1).await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_receiver_that_responds_500_fires_webhooks_failing_and_then_dead() {
    let builder = World::with()
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_ATTEMPTS", "2")
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms");
    let (world, prometheus) = watched(builder).await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    receiver.respond_to_all(Behavior::status(500));

    let failing = prometheus.until_firing("ConnectWebhooksFailing", &[]);
    until_fires(failing, async || drop(world.accept(enquiry_submitted()).await)).await;
    prometheus.until_firing("ConnectDeliveriesDeadLettered", &[]).await;

    receiver.respond_to_all(Behavior::status(204));
    world.connectctl.json(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_secret_that_cannot_be_decrypted_fires_and_loses_nothing() {
    let builder = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.start().await;
    world.add_dispatcher().await;
    let prometheus = watch(&world).await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    // As after a restore, or when somebody wrote to the table by hand.
    let damage = "UPDATE subscriptions SET secret_sealed = secret_sealed || '\\x00'";
    world.database.execute(damage).await;
    world.accept(enquiry_submitted()).await;
    let sealed = [("job", "connect-dispatcher"), ("kind", "subscription")];
    prometheus.until_firing("ConnectSecretDecryptionFailed", &sealed).await;
    assert_eq!(receiver.count(), 0);

    let repair =
        "UPDATE subscriptions SET secret_sealed = substring(secret_sealed FOR length(secret_sealed) - 1)";
    world.database.execute(repair).await;
    // The dispatcher retries half a minute after the last try.
    receiver.wait_for_within(Duration::from_secs(60), 1).await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_dispatcher_with_another_master_key_fires_and_loses_nothing() {
    let builder = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.dispatchers(1).start().await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let prometheus = watch(&world).await;
    world.dispatchers.clear();
    world.set("CONNECT_MASTER_KEY", "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=");
    let mut dispatcher = Program::spawn("connect-dispatcher", world.settings());
    dispatcher.until_listening().await;
    world.dispatchers.push(dispatcher);
    prometheus.watch(&world);
    world.accept(enquiry_submitted()).await;
    let not_ready = [("job", "connect-dispatcher"), ("check", "master_key")];
    prometheus.until_firing("ConnectProgramNotReady", &not_ready).await;
    assert_eq!(receiver.count(), 0);

    world.set("CONNECT_MASTER_KEY", MASTER_KEY);
    world.dispatchers.clear();
    world.add_dispatcher().await;
    prometheus.watch(&world);
    receiver.wait_for(1).await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_dispatcher_that_cannot_record_attempts_fires_messages_held() {
    let builder = World::with().through_proxies().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.ingests(0).workers(0).dispatchers(1).start().await;
    // Of the proxies only the dispatcher's stay in the way.
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.add_ingest().await;
    world.add_worker().await;
    let prometheus = watch(&world).await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    receiver.respond_to_all(Behavior::status(204).held());
    receiver.hold();
    world.accept(enquiry_submitted()).await;
    receiver.wait_for(1).await;
    world.proxies().postgres.reset_connections();
    receiver.release();

    let held = [("job", "connect-dispatcher"), ("queue", "webhooks")];
    prometheus.until_firing("ConnectMessagesUnacknowledged", &held).await;
    // Its last report on the outbox is stale.
    prometheus.until_firing("ConnectOutboxStuck", &[]).await;

    world.proxies().postgres.restore();
    prometheus.until_quiet().await;
}
