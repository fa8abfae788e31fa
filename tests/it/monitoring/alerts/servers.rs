//! Postgres and RabbitMQ that can't be reached.

use super::{contact, until_fires, watched};
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
