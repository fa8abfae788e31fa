//! Servers that are stopped and started in a burst.

use super::{impatient, refused_quickly};
use crate::burst;
use std::time::{Duration, Instant};
use tests::event::batch;
use tests::private::{Broker, End, Postgres};
use tests::{Outgoing, PATIENCE, World, event, eventually};

/// Checks that the programs say that a server is away, and that the route answers quickly, at once and for good.
async fn assert_away(world: &World, server: &str, code: &str) {
    // As long as the program hasn't noticed, a batch may be on its way as far as it knows.
    let at_once = refused_quickly(world).await;
    assert!([code, "processing_timeout"].contains(&at_once.as_str()), "{at_once}");
    for program in world.ingests.iter().chain(&world.workers) {
        let says = program.until_unready().await;
        assert_eq!(says["checks"][server], false, "{says}");
    }
    assert_eq!(refused_quickly(world).await, code);
}

/// Sends a request until its signature is used up: by this try, or by one that was answered 503.
async fn until_used(world: &World, request: &Outgoing) {
    eventually("the signature is used up", PATIENCE, async || {
        match world.http().send(request).await.status {
            200 | 401 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
}

#[tokio::test]
async fn a_postgres_that_crashes_in_a_burst_loses_nothing_that_was_confirmed() {
    let postgres = Postgres::start().await;
    let world = impatient().on_postgres(postgres.url()).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    world.until_ready().await;
    let zeta = world.add_tenant("zeta").await;
    let used = zeta.events(batch(&[event("contact.identified").tenant("zeta").email("ana@example.com")]));
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        for (part, end) in [(0.25, End::Immediate), (0.5, End::Immediate), (0.75, End::Fast)] {
            progress.until(part).await;
            if part == 0.5 {
                until_used(&world, &used).await;
            }
            postgres.stop(end).await;
            assert_away(&world, "postgres", "replay_store_unavailable").await;
            postgres.start_again().await;
            world.until_ready().await;
        }
    })
    .await;
    burst.settle(&world).await;
    world.http().send(&used).await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn a_broker_that_crashes_in_a_burst_loses_nothing_that_was_confirmed() {
    let broker = Broker::start().await;
    let world = impatient().on_broker(broker.url()).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    world.until_ready().await;
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        for (part, end) in [(0.3, End::Immediate), (0.6, End::Fast)] {
            progress.until(part).await;
            broker.stop(end).await;
            assert_away(&world, "broker", "overloaded").await;
            broker.start_again().await;
            world.until_ready().await;
        }
    })
    .await;
    burst.settle(&world).await;
}

#[tokio::test]
async fn a_broker_that_blocks_publishers_for_want_of_memory_is_answered_503_quickly_and_heals() {
    let broker = Broker::start().await;
    let world = World::with().on_broker(broker.url()).set("CONNECT_PUBLISH_TIMEOUT", "300ms").start().await;
    world.accept_in_time(event("contact.identified").email("ana@example.com")).await;
    broker.control(&["set_vm_memory_high_watermark", "absolute", "1MB"]).await;
    let begun = Instant::now();
    // The first may have got there, as far as ingest knows; from then on it is known that nothing does.
    let first = event("enquiry.submitted").email("ana@example.com");
    world.send(std::slice::from_ref(&first)).await.assert_error(503, "processing_timeout");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(refused_quickly(&world).await, "overloaded");
    broker.control(&["set_vm_memory_high_watermark", "absolute", "2GB"]).await;
    eventually("it goes through", PATIENCE, async || {
        match world.send(std::slice::from_ref(&first)).await.status {
            200 => Ok(()),
            status => Err(status.to_string()),
        }
    })
    .await;
    assert_eq!(world.pipeline(&[]).await.len(), 1);
}
