//! Callers that are refused.

use super::{contact, until_fires, watched};
use tests::World;
use tests::event::batch;

#[tokio::test]
async fn many_refused_credentials_are_a_surge() {
    let (world, prometheus) = watched(World::with()).await;
    let surge = prometheus.until_firing("ConnectAuthFailuresSurge", &[]);
    until_fires(surge, async || {
        let request = world.key.events(batch(&[contact()])).replacing("x-connect-key", "ck_stranger");
        world.http().send(&request).await.assert_error(401, "unauthorized");
    })
    .await;
    prometheus.until_quiet().await;
}
