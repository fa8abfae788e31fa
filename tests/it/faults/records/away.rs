//! What is away is told at once, and nothing was done or used up.

use super::{all_pass, assert_done_once_by_retries, assert_unavailable, signed, stored, until_handled};
use crate::records::{every_read, every_route, every_write, get, lead_route, new_lead, post_of};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::{PATIENCE, World, eventually, text};

#[tokio::test]
async fn while_the_replay_store_is_away_every_route_says_so_and_nothing_is_done_or_used_up() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "3s").start().await;
    let lead = new_lead(&world, json!({})).await;
    world.until_ready().await;
    let (routes, before) = (signed(&world, every_route(&lead)), stored(&world).await);
    world.proxies().postgres.cut();
    for (route, request) in &routes {
        let begun = Instant::now();
        assert_unavailable(&world.http().send(request).await, "replay_store_unavailable", route);
        assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    }
    world.proxies().postgres.restore();
    world.until_ready().await;
    assert_eq!(stored(&world).await, before);
    all_pass(&world, &routes).await;
}

#[tokio::test]
async fn while_the_broker_is_away_writes_are_refused_reads_go_on_and_nothing_is_done_or_used_up() {
    let world = World::with().through_proxies().start().await;
    let lead = new_lead(&world, json!({})).await;
    world.until_ready().await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    world.proxies().broker.cut();
    world.ingests[0].until_unready().await;
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "overloaded", route);
    }
    all_pass(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().broker.restore();
    world.until_ready().await;
    assert_eq!(stored(&world).await, before);
    all_pass(&world, &writes).await;
}

#[tokio::test]
async fn while_the_database_for_reads_is_away_only_reads_are_refused() {
    let mut world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "3s").start().await;
    let proxied =
        world.settings().iter().find(|(name, _)| name == "DATABASE_URL").expect("a setting").1.clone();
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.set("DATABASE_READ_URL", &proxied);
    world.restart_ingest().await;
    world.end_workers().await;
    world.add_worker().await;
    let lead = new_lead(&world, json!({})).await;
    all_pass(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().postgres.cut();
    for (route, request) in signed(&world, every_read(&lead)) {
        assert_unavailable(&world.http().send(&request).await, "replay_store_unavailable", &route);
    }
    all_pass(&world, &signed(&world, every_write(&lead))).await;
    world.proxies().postgres.restore();
    eventually("reads pass again", PATIENCE, async || match get(&world, &lead_route(&lead)).await.status {
        200 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_refuses_writes_and_what_it_refused_is_done_once_by_the_retry() {
    let world = World::with().workers(0).set("CONNECT_QUEUE_MAX_LENGTH", "5");
    let mut world = world.set("CONNECT_REPLY_TIMEOUT", "1s").start().await;
    let (mut waited, mut refused) = (Vec::new(), Vec::new());
    // The broker counts with a delay: a few more than five may get in.
    for i in 0..100 {
        let body = json!({"email": format!("{i}@example.com")});
        let request = post_of(&world.key, "/clients", &format!("k-{i}"), &body);
        let answer = world.http().send(&request).await;
        match text(&answer.json()["code"]) {
            "processing_timeout" => waited.push(request),
            "overloaded" => {
                assert_unavailable(&answer, "overloaded", &i);
                refused.push(request);
            }
            other => panic!("{other}"),
        }
        if refused.len() == 3 {
            break;
        }
    }
    assert!(waited.len() >= 5 && refused.len() == 3, "{} waited, {} refused", waited.len(), refused.len());
    // Not the number of those that waited: a refusal may have come after its request had been answered.
    let queued = world.queues.depth("records").await;
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.add_worker().await;
    world.restart_ingest().await;
    until_handled(&world, f64::from(queued)).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    for request in refused.iter().chain(&waited[..2]) {
        assert_done_once_by_retries(&world, request).await;
    }
}
