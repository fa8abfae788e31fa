//! Servers that are stopped and started in a burst.

use super::{REFUSED_WITHIN, refused_quickly, with_default_timeouts};
use crate::burst;
use std::time::Instant;
use tests::dedicated_servers::{Broker, Postgres, StopMode};
use tests::event::batch;
use tests::{HttpRequest, MAX_WAIT, World, event, eventually, until_equal};

/// Checks that the programs report a server as unavailable, and that the route responds quickly, at first and afterwards.
async fn assert_dependency_unavailable(world: &World, server: &str, code: &str) {
    // Until ingest notices the outage, it must assume that a batch may have been published; and the batches of the burst that
    // wait for the server may be all that their tenant may have waiting.
    let at_once = refused_quickly(world).await;
    assert!([code, "processing_timeout", "overloaded"].contains(&at_once.as_str()), "{at_once}");
    for program in world.ingests.iter().chain(&world.workers) {
        // The checks of one server do not fail in the same moment.
        until_equal(server, false, async || program.until_unready().await["checks"][server].clone()).await;
    }
    until_equal("requests are refused because of the outage", code, async || refused_quickly(world).await)
        .await;
}

/// Sends a request until its signature is used up, by this try or by one that got 503.
async fn until_used(world: &World, request: &HttpRequest) {
    eventually("the signature is used up", MAX_WAIT, async || {
        match world.http().send(request).await.status {
            200 | 401 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_postgres_crash_in_a_burst_loses_no_confirmed_event() {
    let postgres = Postgres::start().await;
    let world =
        with_default_timeouts().on_postgres(postgres.url()).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    world.until_ready().await;
    let zeta = world.add_tenant("zeta").await;
    let used = zeta.events(batch(&[event("contact.identified").tenant("zeta").email("ana@example.com")]));
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        for (part, end) in [(0.25, StopMode::Immediate), (0.5, StopMode::Immediate), (0.75, StopMode::Fast)] {
            progress.until(part).await;
            if part == 0.5 {
                until_used(&world, &used).await;
            }
            postgres.stop(end).await;
            assert_dependency_unavailable(&world, "postgres", "replay_store_unavailable").await;
            postgres.start_again().await;
            world.until_ready().await;
        }
    })
    .await;
    burst.assert_applied_once(&world).await;
    world.http().send(&used).await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn a_broker_crash_in_a_burst_loses_no_confirmed_event() {
    let broker = Broker::start().await;
    let world = World::with()
        .on_broker(broker.url())
        .set("CONNECT_PUBLISH_TIMEOUT", "800ms")
        .set("CONNECT_REPLY_TIMEOUT", "3s")
        .start()
        .await;
    world.until_ready().await;
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        for (part, end) in [(0.3, StopMode::Immediate), (0.6, StopMode::Fast)] {
            progress.until(part).await;
            broker.stop(end).await;
            assert_dependency_unavailable(&world, "broker", "overloaded").await;
            broker.start_again().await;
            world.until_ready().await;
        }
    })
    .await;
    burst.assert_applied_once(&world).await;
}

#[tokio::test]
async fn responds_503_quickly_while_the_broker_blocks_publishers_and_recovers() {
    let broker = Broker::start().await;
    let world = World::with().on_broker(broker.url()).set("CONNECT_PUBLISH_TIMEOUT", "300ms").start().await;
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
    broker.allow_memory(1_000_000).await;
    let begun = Instant::now();
    // Ingest must assume that the first message may have arrived; afterwards it knows that the broker blocks.
    let first = event("enquiry.submitted").email("ana@example.com");
    world.send(std::slice::from_ref(&first)).await.assert_error(503, "processing_timeout");
    assert!(begun.elapsed() < REFUSED_WITHIN, "{:?}", begun.elapsed());
    assert_eq!(refused_quickly(&world).await, "overloaded");
    broker.allow_memory(2_000_000_000).await;
    until_equal("it succeeds", 200, async || world.send(std::slice::from_ref(&first)).await.status).await;
    assert_eq!(world.pipeline(&[]).await.len(), 1);
}
