//! A write whose caller was told 503 isn't begun any more, and its retry does it once (architecture: Invariant 6).

use super::{
    all_pass, assert_done_once_by_retries, assert_unavailable, signed, stored, until_handled, until_queued,
};
use crate::records::{every_read, every_write, new_lead, post_of, record};
use serde_json::json;
use std::time::Duration;
use tests::World;

/// Replaces the ingest by one that waits for replies as long as they take.
async fn with_patience(world: &mut World) {
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.restart_ingest().await;
}

#[tokio::test]
async fn without_a_worker_a_write_times_out_and_is_not_begun_when_one_comes() {
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    world.end_workers().await;
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "processing_timeout", route);
    }
    all_pass(&world, &signed(&world, every_read(&lead))).await;
    until_queued(&world, 5).await;

    world.add_worker().await;
    until_handled(&world, 5.0).await;
    assert_eq!(stored(&world).await, before, "their callers were told 503");
    with_patience(&mut world).await;
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
    assert_eq!(world.queues.depth("records.dead").await, 0);
}

#[tokio::test]
async fn a_write_that_a_hanging_broker_held_back_is_not_begun_when_it_goes_on() {
    let mut world = World::with()
        .through_proxies()
        .set("CONNECT_REPLY_TIMEOUT", "2s")
        .set("CONNECT_PUBLISH_TIMEOUT", "200ms")
        .start()
        .await;
    world.until_ready().await;
    let request = post_of(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    assert_unavailable(&world.http().send(&request).await, "processing_timeout", &"stalled");
    world.proxies().broker.restore();
    world.until_ready().await;
    until_handled(&world, 1.0).await;
    with_patience(&mut world).await;
    assert_done_once_by_retries(&world, &request).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn a_broker_that_is_slow_to_take_a_write_is_waited_for_as_the_worker_is() {
    let world = World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "200ms").start().await;
    world.until_ready().await;
    let request = post_of(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    let slow = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        world.proxies().broker.restore();
    };
    let (answer, ()) = futures_util::join!(world.http().send(&request), slow);
    record(&answer, 201);
}

#[tokio::test]
async fn a_write_whose_connection_broke_is_not_begun_after_its_caller_was_told() {
    let world = World::with().through_proxies().workers(0).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    let mut world = world;
    let request = post_of(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    let broken = async {
        until_queued(&world, 1).await;
        world.proxies().broker.cut_once();
    };
    let (answer, ()) = futures_util::join!(world.http().send(&request), broken);
    assert_unavailable(&answer, "processing_timeout", &"cut");
    world.add_worker().await;
    until_handled(&world, 1.0).await;
    world.until_ready().await;
    with_patience(&mut world).await;
    assert_done_once_by_retries(&world, &request).await;
}

#[tokio::test]
async fn a_write_that_waited_for_a_hanging_database_is_not_kept_after_its_caller_was_told() {
    let mut world = World::with().through_proxies().start().await;
    // Its worker has begun with one write already, so that its connections are there and hang in the middle.
    let lead = new_lead(&world, json!({})).await;
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.set("CONNECT_REPLY_TIMEOUT", "1s");
    world.restart_ingest().await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    world.proxies().postgres.stall();
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "processing_timeout", route);
    }
    world.proxies().postgres.restore();
    until_handled(&world, 6.0).await;
    assert_eq!(stored(&world).await, before, "their callers were told 503");
    let failed = [("name", "apply_write"), ("outcome", "failed")];
    let counted = world.workers[0].metrics().await;
    assert_eq!(counted.sum("connect_db_transactions_total", &failed), 0.0, "a deadline is no failure");
    with_patience(&mut world).await;
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
}
