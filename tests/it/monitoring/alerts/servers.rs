//! Postgres and RabbitMQ that can't be reached, or can and don't do what is asked of them.

use super::{contact, until_fires, until_true, watched};
use tests::private::Broker;
use tests::{JOBS, World};

#[tokio::test]
async fn a_postgres_that_cannot_be_reached_is_a_replay_store_that_is_down_and_burns_the_error_budget() {
    let (world, prometheus) = watched(World::with().through_proxies()).await;
    world.accept(contact()).await;
    world.proxies().postgres.cut();

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
async fn a_broker_that_cannot_be_reached_is_told_of_every_program() {
    let (world, prometheus) = watched(World::with().through_proxies()).await;
    world.proxies().broker.cut();
    for job in JOBS {
        prometheus.until_firing("ConnectBrokerDisconnected", &[("job", job)]).await;
    }
    world.send(&[contact()]).await.assert_error(503, "overloaded");

    world.proxies().broker.restore();
    prometheus.until_quiet().await;
    world.accept(contact()).await;
}

#[tokio::test]
async fn a_replay_store_that_takes_nothing_is_down_though_postgres_answers() {
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
    world.accept_in_time(contact()).await;
    prometheus.until_resolved("ConnectReplayStoreDown", &[]).await;
}

#[tokio::test]
async fn a_broker_that_is_short_of_memory_is_told_of_as_one_that_takes_nothing() {
    let broker = Broker::start().await;
    let builder = World::with().on_broker(broker.url()).set("CONNECT_PUBLISH_TIMEOUT", "300ms");
    let (world, prometheus) = watched(builder).await;
    broker.control(&["set_vm_memory_high_watermark", "absolute", "1MB"]).await;
    // With the first publish ingest is told.
    assert_eq!(world.send(&[contact()]).await.status, 503);

    let blocked = prometheus.until_firing("ConnectBrokerBlocked", &[("job", "connect-ingest")]).await;
    assert_eq!(blocked["labels"]["severity"], "critical");
    world.send(&[contact()]).await.assert_error(503, "overloaded");
    let counted = world.ingests[0].metrics().await;
    let unavailable = [("queue", "events"), ("outcome", "unavailable")];
    assert_eq!(counted.sum("connect_publish_total", &unavailable), 1.0);
    assert_eq!(counted.sum("connect_refused_total", &[("reason", "broker")]), 1.0);

    broker.control(&["set_vm_memory_high_watermark", "absolute", "2GB"]).await;
    prometheus.until_resolved("ConnectBrokerBlocked", &[]).await;
    world.accept_in_time(contact()).await;
    prometheus.until_quiet().await;
}
