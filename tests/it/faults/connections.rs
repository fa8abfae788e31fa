//! Connections that are cut or stall, while the servers keep running.

use super::refused_quickly;
use crate::burst;
use tests::event::batch;
use tests::proxy::Proxy;
use tests::{ApiKey, Connectctl, MAX_WAIT, Program, TestDatabase, World, event, eventually};

async fn cut_in_a_burst(which: impl Fn(&World) -> Vec<&Proxy>) {
    let world = World::with().through_proxies().set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        for part in [0.2, 0.4, 0.6, 0.8] {
            progress.until(part).await;
            which(&world).into_iter().for_each(Proxy::reset_connections_once);
        }
    })
    .await;
    burst.assert_applied_once(&world).await;
    world.until_ready().await;
}

#[tokio::test]
async fn ingest_leaves_a_connection_on_which_nothing_is_confirmed() {
    let world =
        World::with().through_proxies().heartbeat(600).workers(0).set("CONNECT_PUBLISH_TIMEOUT", "300ms");
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
async fn reconnects_to_the_broker_in_a_burst_without_losing_events() {
    cut_in_a_burst(|world| vec![&world.proxies().broker]).await;
}

#[tokio::test]
async fn reconnects_to_postgres_in_a_burst_without_losing_events() {
    cut_in_a_burst(|world| vec![&world.proxies().postgres]).await;
}

#[tokio::test]
async fn reconnects_to_both_servers_in_a_burst_without_losing_events() {
    cut_in_a_burst(|world| vec![&world.proxies().broker, &world.proxies().postgres]).await;
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
    let mut programs =
        ["connect-ingest", "connect-worker"].map(|name| Program::spawn(name, world.settings()));
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
    let mut programs =
        ["connect-ingest", "connect-worker"].map(|name| Program::spawn(name, world.settings()));
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
