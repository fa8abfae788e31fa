//! Connections that are cut or stall, while the servers run on.

use super::refused_quickly;
use crate::burst;
use tests::event::batch;
use tests::proxy::Proxy;
use tests::{ApiKey, Connectctl, Program, TestDatabase, World, event};

async fn cut_in_a_burst(which: impl Fn(&World) -> Vec<&Proxy>) {
    let world = World::with().through_proxies().set("CONNECT_REPLY_TIMEOUT", "3s").start().await;
    let burst = burst::send(&world.key, &[world.http().address()], async |mut progress| {
        for part in [0.2, 0.4, 0.6, 0.8] {
            progress.until(part).await;
            which(&world).into_iter().for_each(Proxy::cut_once);
        }
    })
    .await;
    burst.settle(&world).await;
    world.until_ready().await;
}

#[tokio::test]
async fn connections_to_the_broker_that_are_cut_in_a_burst_are_made_anew_and_nothing_is_lost() {
    cut_in_a_burst(|world| vec![&world.proxies().broker]).await;
}

#[tokio::test]
async fn connections_to_postgres_that_are_cut_in_a_burst_are_made_anew_and_nothing_is_lost() {
    cut_in_a_burst(|world| vec![&world.proxies().postgres]).await;
}

#[tokio::test]
async fn all_connections_that_are_cut_at_once_in_a_burst_are_made_anew_and_nothing_is_lost() {
    cut_in_a_burst(|world| vec![&world.proxies().broker, &world.proxies().postgres]).await;
}

#[tokio::test]
async fn a_postgres_that_hangs_is_answered_503_quickly_and_heals() {
    let world = World::with().through_proxies().set("CONNECT_STORE_TIMEOUT", "300ms").start().await;
    world.accept_in_time(event("contact.identified").email("ana@example.com")).await;
    world.until_ready().await;
    world.proxies().postgres.stall();
    for _ in 0..3 {
        assert_eq!(refused_quickly(&world).await, "replay_store_unavailable");
    }
    world.ingests[0].until_unready().await;
    world.workers[0].until_unready().await;
    world.proxies().postgres.restore();
    world.until_ready().await;
    world.accept_in_time(event("contact.identified").email("ana@example.com")).await;
}

#[tokio::test]
async fn a_broker_that_hangs_is_answered_503_quickly_and_heals() {
    let world = World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "300ms").start().await;
    let ana = event("contact.identified").email("ana@example.com");
    world.accept_in_time(ana.clone()).await;
    world.until_ready().await;
    world.proxies().broker.stall();
    // The message may have got there: only a retry can tell.
    assert_eq!(refused_quickly(&world).await, "processing_timeout");
    world.proxies().broker.restore();
    world.until_ready().await;
    assert_eq!(world.accept_in_time(ana).await["status"], "duplicate");
}

#[tokio::test]
async fn programs_that_start_while_the_servers_are_away_get_ready_when_they_come() {
    let mut world = World::with().through_proxies().ingests(0).workers(0).start().await;
    world.proxies().postgres.cut();
    world.proxies().broker.cut();
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
async fn programs_that_start_before_the_schema_is_there_get_ready_once_it_is() {
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
    connectctl.json(&["migrate"]).await;
    for program in &programs {
        program.until_ready().await;
    }
    connectctl.json(&["tenant", "create", "--slug", "acme", "--name", "Acme"]).await;
    let create = ["key", "create", "--tenant", "acme", "--name", "k", "--scopes", "events:ingest"];
    let key = ApiKey::of("acme", &connectctl.json(&create).await);
    let body = batch(&[event("enquiry.submitted").email("ana@example.com")]);
    let answer = programs[0].http().send(&key.events(body)).await;
    assert_eq!(answer.json()["accepted"], 1, "{answer:?}");
}
