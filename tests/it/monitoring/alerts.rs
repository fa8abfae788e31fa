//! A fault is injected, and an alert fires in a real Prometheus with the project's rules; the fault is repaired, and the
//! alert resolves. Time in the rules passes forty times as fast. `ops/prometheus/tests` has a test of each alert.

use serde_json::Value;
use tests::{Behavior, Event, JOBS, Prometheus, Receiver, World, WorldBuilder, event, until_equal};

const EVENTS: [(&str, &str); 1] = [("queue", "events")];

/// A world with programs of every kind and a Prometheus that scrapes them. No alert fires.
async fn watched(builder: WorldBuilder) -> (World, Prometheus) {
    let world = builder.dispatchers(1).start().await;
    let prometheus = watch(&world).await;
    (world, prometheus)
}

/// A Prometheus that scrapes all programs of a world. No alert fires.
async fn watch(world: &World) -> Prometheus {
    let prometheus = Prometheus::start().await;
    prometheus.watch(world);
    prometheus.until_quiet().await;
    prometheus
}

fn contact() -> Event {
    event("contact.identified").email("ana@example.com")
}

/// Repeats `act` until an alert fires.
async fn until_fires(alert: impl Future<Output = Value>, mut act: impl AsyncFnMut()) {
    let acting = async {
        loop {
            act().await;
        }
    };
    tokio::select! {
        _ = alert => {}
        () = acting => {}
    }
}

/// What causes a webhook.
fn enquiry_submitted() -> Event {
    event("enquiry.submitted").email("ana@example.com")
}

#[tokio::test]
async fn a_stuck_worker_fires_messages_held_and_a_stopped_one_no_consumers_and_queue_stalled() {
    let builder = World::with().through_proxies().set("CONNECT_REPLY_TIMEOUT", "300ms");
    let mut world = builder.ingests(0).start().await;
    // Only the worker connects through the proxies.
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.add_ingest().await;
    world.add_dispatcher().await;
    let prometheus = watch(&world).await;
    world.accept_with_retries(contact()).await;

    world.proxies().postgres.reset_connections();
    for _ in 0..3 {
        world.send(&[contact()]).await.assert_error(503, "processing_timeout");
    }
    let held = [("job", "connect-worker"), ("queue", "events")];
    let alert = prometheus.until_firing("ConnectMessagesUnacknowledged", &held).await;
    assert_eq!(alert["labels"]["severity"], "critical");
    // Nothing waits and everything is consumed, as far as the broker can tell.
    let waiting = r#"connect:queue_messages_ready:max{queue="events"} == 0 and connect:queue_consumers:max > 0"#;
    until_equal(waiting, 1, async || prometheus.query(waiting).await.len()).await;
    world.proxies().postgres.restore();
    prometheus.until_resolved("ConnectMessagesUnacknowledged", &[]).await;

    assert_eq!(world.workers.remove(0).terminate().await.code(), Some(0));
    world.send(&[contact()]).await.assert_error(503, "processing_timeout");
    prometheus.until_firing("ConnectNoConsumers", &EVENTS).await;
    prometheus.until_firing("ConnectQueueStalled", &EVENTS).await;
    prometheus.until_firing("ConnectProgramMissing", &[("job", "connect-worker")]).await;
    prometheus.until_firing("ConnectProgramDown", &[("job", "connect-worker")]).await;
    world.add_worker().await;
    prometheus.watch(&world);
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn unreachable_servers_fire_for_every_program_and_burn_the_error_budget() {
    let (world, prometheus) = watched(World::with().through_proxies()).await;
    world.proxies().broker.reset_connections();
    for job in JOBS {
        prometheus.until_firing("ConnectBrokerDisconnected", &[("job", job)]).await;
    }
    world.send(&[contact()]).await.assert_error(503, "overloaded");
    world.proxies().broker.restore();
    prometheus.until_resolved("ConnectBrokerDisconnected", &[]).await;

    world.accept(contact()).await;
    world.proxies().postgres.reset_connections();

    let burns = prometheus.until_firing("ConnectErrorBudgetBurnsFast", &[]);
    until_fires(burns, async || {
        world.send(&[contact()]).await.assert_error(503, "replay_store_unavailable");
    })
    .await;
    prometheus.until_firing("ConnectReplayStoreDown", &[("job", "connect-ingest")]).await;
    for job in JOBS {
        prometheus.until_firing("ConnectProgramNotReady", &[("job", job), ("check", "postgres")]).await;
    }

    world.proxies().postgres.restore();
    prometheus.until_resolved("ConnectReplayStoreDown", &[]).await;
    prometheus.until_resolved("ConnectProgramNotReady", &[]).await;
    world.accept(contact()).await;
    prometheus.until_resolved("ConnectErrorBudgetBurnsFast", &[]).await;
}

#[tokio::test]
async fn webhooks_that_wait_for_their_fan_out_fail_or_are_dead_fire() {
    let builder = World::with()
        .set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true")
        .set("CONNECT_WEBHOOK_ATTEMPTS", "2")
        .set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms");
    let (world, prometheus) = watched(builder).await;
    let receiver = Receiver::http();
    world.subscribe(&receiver.url("/hooks")).await;
    let holder = world.database.begin("LOCK TABLE delivery_numbers IN SHARE MODE").await;
    world.accept(enquiry_submitted()).await;
    prometheus.until_firing("ConnectOutboxStuck", &[]).await;
    assert_eq!(receiver.count(), 0);
    drop(holder);
    receiver.wait_for(1).await;
    prometheus.until_resolved("ConnectOutboxStuck", &[]).await;

    receiver.respond_to_all(Behavior::status(500));

    let failing = prometheus.until_firing("ConnectWebhooksFailing", &[]);
    until_fires(failing, async || drop(world.accept(enquiry_submitted()).await)).await;
    prometheus.until_firing("ConnectDeliveriesDeadLettered", &[]).await;

    receiver.respond_to_all(Behavior::status(204));
    world.connectctl.json(&["delivery", "replay", "--dead", "--tenant", "acme"]).await;
    prometheus.until_quiet().await;
}
