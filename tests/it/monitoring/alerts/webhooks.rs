//! Outbound events that aren't relayed, and receivers that don't take them.

use super::{until_fires, watch, watched};
use std::time::Duration;
use tests::{Behaviour, Event, MASTER_KEY, Program, Receiver, World, event};

/// What causes a webhook.
fn enquiry() -> Event {
    event("enquiry.submitted").email("ana@example.com")
}

async fn subscribe(world: &World, receiver: &Receiver) {
    let url = receiver.url("/hooks");
    world.connectctl.json(&["subscription", "create", "--tenant", "acme", "--url", &url]).await;
}

#[tokio::test]
async fn without_a_dispatcher_the_outbox_is_stuck_and_nobody_consumes_webhooks() {
    let (mut world, prometheus) = watched(World::with()).await;
    assert_eq!(world.dispatchers.remove(0).terminate().await.code(), Some(0));
    world.accept(enquiry()).await;

    prometheus.until_firing("ConnectOutboxStuck", &[]).await;
    prometheus.until_firing("ConnectNoConsumers", &[("queue", "webhooks")]).await;
    prometheus.until_firing("ConnectProgramMissing", &[("job", "connect-dispatcher")]).await;

    world.add_dispatcher().await;
    prometheus.watch(&world);
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_dispatcher_that_cannot_reach_the_broker_is_told_of_and_delivers_all_the_same() {
    let builder = World::with().through_proxies().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.ingests(0).workers(0).dispatchers(1).start().await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver).await;
    // Of the proxies only the dispatcher's stays in the way.
    let direct = world.queues.url().to_owned();
    world.set("AMQP_URL", &direct);
    world.add_ingest().await;
    world.add_worker().await;
    let prometheus = watch(&world).await;
    world.proxies().broker.cut();
    prometheus.until_firing("ConnectBrokerDisconnected", &[("job", "connect-dispatcher")]).await;
    world.accept(enquiry()).await;
    receiver.wait_for(1).await;

    world.proxies().broker.restore();
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_dispatcher_that_is_kept_from_relaying_leaves_the_outbox_stuck() {
    let builder = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.start().await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver).await;
    // As a leader does that is stuck and alive.
    let leader = world.database.connect().await;
    let lock = format!("SELECT pg_advisory_lock({})", i64::from_be_bytes(*b"webhooks"));
    leader.batch_execute(&lock).await.expect("the lock of the relay");
    world.add_dispatcher().await;
    let prometheus = watch(&world).await;
    world.accept(enquiry()).await;
    prometheus.until_firing("ConnectOutboxStuck", &[]).await;
    assert_eq!(receiver.count(), 0);

    drop(leader);
    receiver.wait_for(1).await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_receiver_that_answers_500_is_told_of_as_failures_and_then_as_dead_webhooks() {
    let builder = World::with()
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_ATTEMPTS", "2")
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms");
    let (world, prometheus) = watched(builder).await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver).await;
    receiver.answer_all(Behaviour::status(500));

    let failing = prometheus.until_firing("ConnectWebhooksFailing", &[]);
    until_fires(failing, async || drop(world.accept(enquiry()).await)).await;
    prometheus.until_firing("ConnectWebhooksDead", &[]).await;

    receiver.answer_all(Behaviour::status(204));
    world.connectctl.json(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_subscription_sealed_with_another_master_key_is_told_of_and_loses_nothing() {
    let builder = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.start().await;
    world.add_dispatcher().await;
    let prometheus = watch(&world).await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver).await;
    // As after a restore, or when somebody wrote to the table by hand.
    let damage = "UPDATE subscriptions SET secret_sealed = secret_sealed || '\\x00'";
    world.database.execute(damage).await;
    world.accept(enquiry()).await;
    let sealed = [("job", "connect-dispatcher"), ("of", "subscription")];
    prometheus.until_firing("ConnectSecretsSealed", &sealed).await;
    assert_eq!(receiver.count(), 0);

    let repair =
        "UPDATE subscriptions SET secret_sealed = substring(secret_sealed FOR length(secret_sealed) - 1)";
    world.database.execute(repair).await;
    // It is tried again half a minute after the last try.
    receiver.wait_for_within(Duration::from_secs(60), 1).await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_dispatcher_with_another_master_key_is_told_of_and_loses_nothing() {
    let builder = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.dispatchers(1).start().await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver).await;
    let prometheus = watch(&world).await;
    world.dispatchers.clear();
    world.set("CONNECT_MASTER_KEY", "YW5vdGhlciBtYXN0ZXIga2V5IG9mIDMyIGJ5dGVzISE=");
    let mut dispatcher = Program::spawn("connect-dispatcher", world.settings());
    dispatcher.until_listening().await;
    world.dispatchers.push(dispatcher);
    prometheus.watch(&world);
    world.accept(enquiry()).await;
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
async fn a_dispatcher_that_cannot_put_on_record_what_it_sent_is_told_of_as_one_that_holds_messages() {
    let builder = World::with().through_proxies().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let mut world = builder.ingests(0).workers(0).dispatchers(1).start().await;
    // Of the proxies only the dispatcher's stay in the way.
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.add_ingest().await;
    world.add_worker().await;
    let prometheus = watch(&world).await;
    let receiver = Receiver::http();
    subscribe(&world, &receiver).await;
    receiver.answer_all(Behaviour::status(204).held());
    receiver.hold();
    world.accept(enquiry()).await;
    receiver.wait_for(1).await;
    world.proxies().postgres.cut();
    receiver.release();

    let held = [("job", "connect-dispatcher"), ("queue", "webhooks")];
    prometheus.until_firing("ConnectMessagesHeld", &held).await;
    // What it said of the outbox before is old.
    prometheus.until_firing("ConnectOutboxStuck", &[]).await;

    world.proxies().postgres.restore();
    prometheus.until_quiet().await;
}
