//! Postgres and RabbitMQ that cannot be reached, or can be reached but do not work.

use super::{contact, until_fires, until_true, watched};
use tests::dedicated_servers::Broker;
use tests::{JOBS, World};

#[tokio::test]
async fn an_unreachable_postgres_fires_replay_store_down_and_error_budget_burn() {
    let (world, prometheus) = watched(World::with().through_proxies()).await;
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
async fn an_unreachable_broker_fires_for_every_program() {
    let (world, prometheus) = watched(World::with().through_proxies()).await;
    world.proxies().broker.reset_connections();
    for job in JOBS {
        prometheus.until_firing("ConnectBrokerDisconnected", &[("job", job)]).await;
    }
    world.send(&[contact()]).await.assert_error(503, "overloaded");

    world.proxies().broker.restore();
    prometheus.until_quiet().await;
    world.accept(contact()).await;
}

#[tokio::test]
async fn a_locked_replay_store_fires_while_postgres_is_reachable() {
    let (world, prometheus) = watched(World::with().set("CONNECT_STORE_TIMEOUT", "300ms")).await;
    let client = world.database.connect().await;
    client
        .batch_execute("BEGIN; LOCK TABLE replay_entries IN ACCESS EXCLUSIVE MODE")
        .await
        .expect("the lock");

    let down = prometheus.until_firing("ConnectReplayStoreDown", &[("job", "connect-ingest")]);
    until_fires(down, async || {
        world.send(&[contact()]).await.assert_error(503, "replay_store_unavailable");
    })
    .await;
    let reached = r#"connect_ready{job="connect-ingest", check="postgres"} == 1"#;
    until_true(&prometheus, reached).await;

    client.batch_execute("COMMIT").await.expect("the end of the lock");
    world.accept_with_retries(contact()).await;
    prometheus.until_resolved("ConnectReplayStoreDown", &[]).await;
}

#[tokio::test]
async fn a_broker_short_of_memory_fires_broker_blocked() {
    let broker = Broker::start().await;
    let builder = World::with().on_broker(broker.url()).set("CONNECT_PUBLISH_TIMEOUT", "300ms");
    let (world, prometheus) = watched(builder).await;
    broker.control(&["set_vm_memory_high_watermark", "absolute", "1MB"]).await;
    // RabbitMQ tells ingest with the first publish.
    assert_eq!(world.send(&[contact()]).await.status, 503);

    let blocked = prometheus.until_firing("ConnectBrokerBlocked", &[("job", "connect-ingest")]).await;
    assert_eq!(blocked["labels"]["severity"], "critical");
    world.send(&[contact()]).await.assert_error(503, "overloaded");
    let counted = world.ingests[0].metrics().await;
    let unavailable = [("queue", "events"), ("outcome", "unavailable")];
    assert_eq!(counted.sum("connect_publish_total", &unavailable), 1.0);
    assert_eq!(counted.sum("connect_overloaded_total", &[("reason", "broker")]), 1.0);

    broker.control(&["set_vm_memory_high_watermark", "absolute", "2GB"]).await;
    prometheus.until_resolved("ConnectBrokerBlocked", &[]).await;
    world.accept_with_retries(contact()).await;
    prometheus.until_quiet().await;
}
