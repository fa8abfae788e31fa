//! A write whose caller got 503 is not applied later, and its retry applies it once (architecture: Invariant 6).

use super::{
    assert_all_succeed, assert_done_once_by_retries, assert_unavailable, signed, stored, until_handled,
};
use crate::records::{every_read, every_write, new_lead, post_request, record};
use serde_json::json;
use tests::event::batch;
use tests::{World, event};

/// Restarts ingest with a long reply timeout.
async fn with_long_reply_timeout(world: &mut World) {
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.restart_ingest().await;
}

#[tokio::test]
async fn a_write_that_timed_out_without_a_worker_is_not_applied_later() {
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    world.end_workers().await;
    world.set("CONNECT_REPLY_TIMEOUT", "300ms");
    world.restart_ingest().await;
    let (writes, before) = (signed(&world, every_write(&lead)), stored(&world).await);
    for (route, request) in &writes {
        assert_unavailable(&world.http().send(request).await, "processing_timeout", route);
    }
    assert_all_succeed(&world, &signed(&world, every_read(&lead))).await;
    world.until_depth("records", 5).await;

    world.add_worker().await;
    until_handled(&world, 5.0).await;
    assert_eq!(stored(&world).await, before, "their callers were told 503");
    with_long_reply_timeout(&mut world).await;
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
    assert_eq!(world.queues.depth("records.dead").await, 0);
}

#[tokio::test]
async fn a_write_delayed_by_a_hanging_broker_is_not_applied_later() {
    let mut world = World::with()
        .through_proxies()
        .set("CONNECT_REPLY_TIMEOUT", "2s")
        .set("CONNECT_PUBLISH_TIMEOUT", "200ms")
        .start()
        .await;
    world.until_ready().await;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    assert_unavailable(&world.http().send(&request).await, "processing_timeout", &"stalled");
    world.proxies().broker.restore();
    world.until_ready().await;
    until_handled(&world, 1.0).await;
    with_long_reply_timeout(&mut world).await;
    assert_done_once_by_retries(&world, &request).await;
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn waits_for_a_slow_broker_as_long_as_for_the_worker() {
    let world = World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "200ms").start().await;
    world.until_ready().await;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    world.proxies().broker.stall();
    let slow = async {
        world.ingests[0].until_sum("connect_backlog_units", &[("queue", "records")], 1.0).await;
        // A batch fails after CONNECT_PUBLISH_TIMEOUT, so at its response the write has waited for longer.
        let batch = world.key.events(batch(&[event("contact.identified").email("bo@example.com")]));
        assert_unavailable(&world.http().send(&batch).await, "processing_timeout", &"a batch");
        world.proxies().broker.restore();
    };
    let (response, ()) = futures_util::join!(world.http().send(&request), slow);
    record(&response, 201);
}

#[tokio::test]
async fn a_write_whose_connection_broke_is_not_applied_after_its_503() {
    let world = World::with().through_proxies().workers(0).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    let mut world = world;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    let broken = async {
        world.until_depth("records", 1).await;
        world.proxies().broker.reset_connections_once();
    };
    let (response, ()) = futures_util::join!(world.http().send(&request), broken);
    assert_unavailable(&response, "processing_timeout", &"cut");
    world.add_worker().await;
    until_handled(&world, 1.0).await;
    world.until_ready().await;
    with_long_reply_timeout(&mut world).await;
    assert_done_once_by_retries(&world, &request).await;
}

#[tokio::test]
async fn a_write_delayed_by_a_hanging_database_is_not_applied_after_its_503() {
    let mut world = World::with().through_proxies().start().await;
    // The worker has applied a write, so that its connections are open and hang within the next one.
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
    with_long_reply_timeout(&mut world).await;
    for (_, request) in writes.iter().filter(|(route, _)| route.method == "POST") {
        assert_done_once_by_retries(&world, request).await;
    }
}
