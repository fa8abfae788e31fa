//! Programs that are killed, servers that are stopped and started, and connections that are cut or stall, under load.

use super::{REFUSED_WITHIN, refused_quickly, with_default_timeouts};
use crate::burst;
use std::time::Instant;
use tests::dedicated_servers::{Broker, Postgres, StopMode};
use tests::{
    ApiKey, Connectctl, HttpRequest, MAX_WAIT, Program, TestDatabase, World, batch, event, eventually, until_equal,
};

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
    until_equal("requests are refused because of the outage", code, async || refused_quickly(world).await).await;
}

/// Sends a request until its signature is used up, by this try or by one that got 503.
async fn until_used(world: &World, request: &HttpRequest) {
    eventually("the signature is used up", MAX_WAIT, async || match world.http().send(request).await.status {
        200 | 401 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}

#[tokio::test]
async fn a_postgres_crash_in_a_burst_loses_no_confirmed_event() {
    let postgres = Postgres::start().await;
    let world = with_default_timeouts().on_postgres(postgres.url()).set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
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
async fn what_the_worker_has_handled_is_acknowledged_although_nothing_follows() {
    let broker = Broker::start().await;
    let world = World::with().on_broker(broker.url()).start().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
    until_equal("unacknowledged messages", 0, async || broker.unacknowledged().await).await;
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

#[tokio::test]
async fn workers_killed_in_turn_leave_their_messages_to_each_other_or_to_the_next_one() {
    for workers in [1, 2] {
        let mut world = World::with().workers(workers).start().await;
        let (key, ingest) = (world.key.clone(), world.http().address());
        let burst = burst::send(&key, &[ingest], async |mut progress| {
            for part in [0.2, 0.4, 0.6, 0.8] {
                progress.until(part).await;
                world.workers.remove(0).kill();
                world.add_worker().await;
            }
        })
        .await;
        assert_eq!(burst.interrupted(), 0, "requests that waited for a killed one get their replies");
        burst.assert_applied_once(&world).await;
    }
}

#[tokio::test]
async fn an_ingest_killed_in_a_burst_loses_nothing_that_is_resent() {
    let mut world = World::with().ingests(2).start().await;
    let key = world.key.clone();
    let ingests = [0, 1].map(|i| world.ingests[i].http().address());
    let burst = burst::send(&key, &ingests, async |mut progress| {
        progress.until(0.3).await;
        world.ingests.remove(0).kill();
    })
    .await;
    assert!(burst.refused() > 0, "no request was interrupted");
    burst.assert_applied_once(&world).await;
}

#[tokio::test]
async fn a_frozen_worker_keeps_its_locks_for_ten_seconds_at_most() {
    let world = World::start().await;
    world.accept(event("contact.identified").email("ana@example.com").name("Ana")).await;
    let other = world.database.connect().await;
    // Little longer than a transaction may be idle.
    let lock = "SET statement_timeout = '14s'; BEGIN; UPDATE clients SET updated_at = now()";
    other.batch_execute(lock).await.expect("no row is locked");
    let renamed = [event("contact.updated").email("ana@example.com").name("Anna")];
    let send = async {
        world.http().send(&world.key.events(batch(&renamed))).await.assert_status(200);
    };
    let freeze = async {
        world.database.until_lock_wait().await;
        world.workers[0].signal("STOP");
        other.batch_execute("COMMIT").await.expect("a commit");
        // The frozen worker has the row now, until the server ends its transaction.
        let locked = other.batch_execute("UPDATE clients SET updated_at = now()").await;
        world.workers[0].signal("CONT");
        locked.expect("the row is free again");
    };
    futures_util::join!(send, freeze);
    world.until_applied(2).await;
}

#[tokio::test]
async fn ingest_leaves_a_connection_on_which_nothing_is_confirmed() {
    let world = World::with().through_proxies().heartbeat(600).workers(0).set("CONNECT_PUBLISH_TIMEOUT", "300ms");
    let world = world.set("CONNECT_REPLY_TIMEOUT", "600ms").start().await;
    world.proxies().broker.stall_half();
    eventually("a message arrives", MAX_WAIT, async || {
        world.send(&[event("contact.identified").email("ana@example.com")]).await;
        match world.queues.depth("events").await {
            0 => Err("none".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
}

#[tokio::test]
async fn responds_503_quickly_while_postgres_hangs_and_recovers() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "300ms").start().await;
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
    world.until_ready().await;
    world.proxies().postgres.stall();
    for _ in 0..3 {
        assert_eq!(refused_quickly(&world).await, "replay_store_unavailable");
    }
    world.ingests[0].until_unready().await;
    world.workers[0].until_unready().await;
    world.proxies().postgres.restore();
    world.until_ready().await;
    world.accept_with_retries(event("contact.identified").email("ana@example.com")).await;
}

#[tokio::test]
async fn responds_503_quickly_while_the_broker_hangs_and_recovers() {
    let world = World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "300ms").start().await;
    let ana = event("contact.identified").email("ana@example.com");
    world.accept_with_retries(ana.clone()).await;
    world.until_ready().await;
    world.proxies().broker.stall();
    // The message may have been queued: only a retry can tell.
    assert_eq!(refused_quickly(&world).await, "processing_timeout");
    world.proxies().broker.restore();
    world.until_ready().await;
    assert_eq!(world.accept_with_retries(ana).await["status"], "duplicate");
}

#[tokio::test]
async fn programs_started_during_an_outage_become_ready_afterwards() {
    let mut world = World::with().through_proxies().ingests(0).workers(0).start().await;
    world.proxies().postgres.reset_connections();
    world.proxies().broker.reset_connections();
    let mut programs = ["connect-ingest", "connect-worker"].map(|name| Program::spawn(name, world.settings()));
    for program in &mut programs {
        program.until_listening().await;
        let says = program.until_unready().await;
        assert_eq!(says["ready"], false, "{says}");
        assert_eq!(program.operator_get("/livez").await.expect("it lives").status, 200);
    }
    world.proxies().postgres.restore();
    world.proxies().broker.restore();
    let [ingest, worker] = programs;
    world.ingests.push(ingest);
    world.workers.push(worker);
    world.until_ready().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
}

#[tokio::test]
async fn programs_started_before_the_migration_become_ready_after_it() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let empty = TestDatabase::empty().await;
    world.set("DATABASE_URL", empty.url());
    let mut programs = ["connect-ingest", "connect-worker"].map(|name| Program::spawn(name, world.settings()));
    for program in &mut programs {
        program.until_listening().await;
    }
    programs[0].until_unready().await;
    assert_eq!(programs[0].http().send(&world.key.events("{}")).await.status, 503);
    let connectctl = Connectctl::for_database(empty.url());
    connectctl.json(&["migrate", "--roles", "--role-prefix", tests::roles::ROLE_PREFIX]).await;
    for program in &programs {
        program.until_ready().await;
    }
    connectctl.json(&["tenant", "create", "--slug", "acme", "--name", "Acme"]).await;
    let create = ["key", "create", "--tenant", "acme", "--name", "k", "--scopes", "events:ingest"];
    let key = ApiKey::of("acme", &connectctl.json(&create).await);
    let body = batch(&[event("enquiry.submitted").email("ana@example.com")]);
    let response = programs[0].http().send(&key.events(body)).await;
    assert_eq!(response.json()["accepted"], 1, "{response:?}");
}
