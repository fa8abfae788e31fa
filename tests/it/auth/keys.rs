//! Keys that end: revoked, expired, stripped of a scope (D5).

use super::{assert_forbidden, assert_unauthorized, valid};
use std::time::{Duration, Instant};
use tests::{Answer, ApiKey, PATIENCE, World, eventually};

/// How soon every ingest must refuse what was taken away.
const SOON: Duration = Duration::from_secs(1);

/// Waits until every ingest answers a valid batch of `key` with `status`, and gives the last answer. When that is a
/// refusal, no request that begins [`SOON`] after `since` may be processed any more.
async fn until_all_answer(world: &World, key: &ApiKey, status: u16, since: Instant) -> Answer {
    eventually(&format!("every ingest says {status}"), PATIENCE, async || {
        let mut last = None;
        for ingest in &world.ingests {
            let late = since.elapsed();
            let answer = ingest.http().send(&key.events(valid())).await;
            if answer.status != status {
                assert!(status == 200 || answer.status != 200 || late < SOON, "processed after {late:?}");
                return Err(answer.status.to_string());
            }
            last = Some(answer);
        }
        last.ok_or_else(|| "no ingest".to_owned())
    })
    .await
}

#[tokio::test]
async fn a_revoked_key_is_refused_by_every_ingest_within_a_second() {
    let world = World::with().ingests(2).start().await;
    until_all_answer(&world, &world.key, 200, Instant::now()).await;
    world.connectctl.json(&["key", "revoke", &world.key.prefix]).await;
    let refusal = until_all_answer(&world, &world.key, 401, Instant::now()).await;
    assert_unauthorized(&refusal, "revoked");
}

#[tokio::test]
async fn a_scope_taken_away_is_refused_by_every_ingest_within_a_second() {
    let world = World::with().ingests(2).start().await;
    until_all_answer(&world, &world.key, 200, Instant::now()).await;
    world.connectctl.json(&["key", "scopes", &world.key.prefix, "--set", "clients:read"]).await;
    let refusal = until_all_answer(&world, &world.key, 403, Instant::now()).await;
    assert_forbidden(&refusal, "without the scope");
    world.connectctl.json(&["key", "scopes", &world.key.prefix, "--set", "events:ingest"]).await;
    until_all_answer(&world, &world.key, 200, Instant::now()).await;
}

#[tokio::test]
async fn a_revoked_key_is_refused_even_when_the_database_dropped_every_connection_just_before() {
    let world = World::start().await;
    until_all_answer(&world, &world.key, 200, Instant::now()).await;
    world
        .database
        .execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .await;
    world.connectctl.json(&["key", "revoke", &world.key.prefix]).await;
    // Connections are made anew meanwhile; what must not happen is that the key goes on working.
    until_all_answer(&world, &world.key, 401, Instant::now()).await;
}

#[tokio::test]
async fn a_key_made_or_changed_while_ingest_runs_works_at_once() {
    let world = World::start().await;
    let key = world.add_key("events:ingest").await;
    assert_eq!(world.http().send(&key.events(valid())).await.status, 200);
}

#[tokio::test]
async fn a_key_ends_when_it_expires() {
    let world = World::start().await;
    let create = [
        "key",
        "create",
        "--tenant",
        "acme",
        "--name",
        "short",
        "--scopes",
        "events:ingest",
        "--expires-in",
        "8s",
    ];
    let key = ApiKey::of("acme", &world.connectctl.json(&create).await);
    let expires = Instant::now() + Duration::from_secs(8);
    assert_eq!(world.http().send(&key.events(valid())).await.status, 200, "before");
    let refusal = until_all_answer(&world, &key, 401, expires).await;
    assert_unauthorized(&refusal, "expired");
}
