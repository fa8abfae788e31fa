//! Callers that are refused.

use super::{contact, until_fires, watched};
use futures_util::future::join_all;
use tests::World;
use tests::event::batch;

#[tokio::test]
async fn backlog_full_fires_while_a_tenant_exceeds_its_share() {
    // A tenant may have one batch at a time in the backlog.
    let (world, prometheus) = watched(World::with().set("CONNECT_BACKLOG_TARGET", "1ms")).await;
    let full = prometheus.until_firing("ConnectBacklogFull", &[("reason", "backlog_share")]);
    until_fires(full, async || {
        let batches: Vec<_> = (0..4).map(|_| world.key.events(batch(&vec![contact(); 50]))).collect();
        join_all(batches.iter().map(async |batch| world.http().send(batch).await)).await;
    })
    .await;
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn auth_failures_surge_fires_on_many_refused_credentials() {
    let (world, prometheus) = watched(World::with()).await;
    let surge = prometheus.until_firing("ConnectAuthFailuresSurge", &[]);
    until_fires(surge, async || {
        let request = world.key.events(batch(&[contact()])).replacing("x-connect-key", "ck_stranger");
        world.http().send(&request).await.assert_error(401, "unauthorized");
    })
    .await;
    prometheus.until_quiet().await;
}
