//! Keys that are revoked, expire, or lose a scope (D5).

use super::{assert_forbidden, assert_unauthorized, valid};
use std::time::{Duration, Instant};
use tests::{ApiKey, HttpResponse, MAX_WAIT, World, eventually};

/// Within this time after a revocation every ingest must refuse the key.
const REVOCATION_LIMIT: Duration = Duration::from_secs(1);

/// Waits until every ingest responds to a valid batch of `key` with `status`, and returns the last response. If that is
/// a refusal, no request sent later than [`REVOCATION_LIMIT`] after `since` may be accepted.
async fn until_every_ingest_responds(
    world: &World,
    key: &ApiKey,
    status: u16,
    since: Instant,
) -> HttpResponse {
    eventually(&format!("every ingest says {status}"), MAX_WAIT, async || {
        let mut last = None;
        for http in world.all_http() {
            let late = since.elapsed();
            let response = http.send(&key.events(valid())).await;
            if response.status != status {
                assert!(
                    status == 200 || response.status != 200 || late < REVOCATION_LIMIT,
                    "processed after {late:?}"
                );
                return Err(response.status.to_string());
            }
            last = Some(response);
        }
        last.ok_or_else(|| "no ingest".to_owned())
    })
    .await
}

#[tokio::test]
async fn every_ingest_rejects_a_revoked_key_within_a_second() {
    let world = World::shared().await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    world.connectctl.json(&["key", "revoke", &world.key.prefix]).await;
    let refusal = until_every_ingest_responds(&world, &world.key, 401, Instant::now()).await;
    assert_unauthorized(&refusal, "revoked");
}

#[tokio::test]
async fn every_ingest_rejects_a_removed_scope_within_a_second() {
    let world = World::shared().await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    world.connectctl.json(&["key", "scopes", &world.key.prefix, "--set", "clients:read"]).await;
    let refusal = until_every_ingest_responds(&world, &world.key, 403, Instant::now()).await;
    assert_forbidden(&refusal, "without the scope");
    world.connectctl.json(&["key", "scopes", &world.key.prefix, "--set", "events:ingest"]).await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
}

#[tokio::test]
async fn rejects_a_revoked_key_after_the_database_dropped_all_connections() {
    let world = World::start().await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    world
        .database
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    world.connectctl.json(&["key", "revoke", &world.key.prefix]).await;
    // Ingest reconnects meanwhile. The key must not keep working.
    until_every_ingest_responds(&world, &world.key, 401, Instant::now()).await;
}
