//! An unavailable dependency gets 503 immediately, and nothing is applied or used up.

use super::{
    assert_all_succeed, assert_done_once_by_retries, assert_unavailable, signed, stored, until_handled,
};
use crate::faults::fill_queue;
use crate::records::replica::with_replica;
use crate::records::{
    every_read, every_route, every_write, get, lead_route, new_lead, post_request, reads_on,
};
use serde_json::json;
use std::time::{Duration, Instant};
use tests::{MAX_WAIT, World, eventually};

#[tokio::test]
async fn without_the_replay_store_every_route_gets_503_and_changes_nothing() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "3s").start().await;
    let lead = new_lead(&world, json!({})).await;
    world.until_ready().await;
    let (routes, before) = (signed(&world, every_route(&lead)), stored(&world).await);
    world.proxies().postgres.reset_connections();
    for (route, request) in &routes {
        let begun = Instant::now();
        assert_unavailable(&world.http().send(request).await, "replay_store_unavailable", route);
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }
    world.proxies().postgres.restore();
    world.until_ready().await;
    assert_eq!(stored(&world).await, before);
    assert_all_succeed(&world, &routes).await;
}

#[tokio::test]
async fn without_the_broker_writes_get_503_and_reads_succeed() {
    let world = World::with().through_proxies().start().await;
    let lead = new_lead(&world, json!({})).await;
    world.until_ready().await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    world.proxies().broker.reset_connections();
    world.ingests[0].until_unready().await;
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "overloaded", route);
    }
    assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().broker.restore();
    world.until_ready().await;
    assert_eq!(stored(&world).await, before);
    assert_all_succeed(&world, &writes).await;
}

#[tokio::test]
async fn without_the_replica_records_are_read_on_the_primary() {
    let world = with_replica().await;
    let lead = new_lead(&world, json!({})).await;
    assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    world.proxies().postgres.reset_connections();
    for _ in 0..3 {
        assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    }
    assert_all_succeed(&world, &signed(&world, every_write(&lead))).await;
    world.proxies().postgres.restore();
    eventually("the replica is read again", MAX_WAIT, async || {
        let before = reads_on(&world, "replica").await;
        assert_eq!(get(&world, &lead_route(&lead)).await.status, 200);
        if reads_on(&world, "replica").await > before { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
}

#[tokio::test]
async fn a_full_queue_rejects_writes_and_their_retry_applies_them_once() {
    let world = World::with().workers(0).set("CONNECT_QUEUE_MAX_LENGTH", "5");
    let mut world = world.set("CONNECT_REPLY_TIMEOUT", "1s").start().await;
    let [waited, refused] = fill_queue(async |i| {
        let body = json!({"email": format!("{i}@example.com")});
        let request = post_request(&world.key, "/clients", &format!("k-{i}"), &body);
        let response = world.http().send(&request).await;
        (request, response)
    })
    .await;
    refused.iter().for_each(|(_, response)| assert_unavailable(response, "overloaded", &"a full queue"));
    // This may differ from `waited.len()`: the broker may have rejected a message after its request had timed out.
    let queued = world.queues.depth("records").await;
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.add_worker().await;
    world.restart_ingest().await;
    until_handled(&world, f64::from(queued)).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    for (request, _) in refused.iter().chain(&waited[..2]) {
        assert_done_once_by_retries(&world, request).await;
    }
}
