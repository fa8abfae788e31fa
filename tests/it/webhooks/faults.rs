//! Whatever crashes, every committed event is delivered, pending, or dead-lettered.

use super::OutboundWorld;
use crate::burst::{self, Burst, Progress};
use std::collections::{HashMap, HashSet};
use std::time::Duration;
use tests::dedicated_servers::{Broker, Postgres, StopMode};
use tests::{Behavior, World, eventually, text};

/// Longer than any server takes to come back.
const OUTAGE: Duration = Duration::from_secs(180);

/// Creates two subscriptions, and sends a burst during which `fault` runs.
async fn burst(outbound: &mut OutboundWorld, fault: impl AsyncFnOnce(&mut World, Progress)) -> Burst {
    for path in ["/one", "/two"] {
        outbound.subscribe(path, &[]).await;
    }
    let world = &mut outbound.world;
    let (key, ingest) = (world.key.clone(), world.http().address());
    burst::send(&key, &[ingest], async |progress| fault(world, progress).await).await
}

/// Waits until every event is delivered, and checks the records against what the receiver got. Returns how many requests
/// were repeated.
async fn assert_all_delivered(outbound: &OutboundWorld) -> usize {
    let database = &outbound.world.database;
    burst::until_delivered(&outbound.world, 2).await;
    let rows = "SELECT d.delivery_id::text AS id, d.event_id::text AS event, d.attempts FROM deliveries d";
    let deliveries = database.rows(rows, &[]).await;
    assert!(deliveries.len() >= 200, "{}", deliveries.len());
    let received = outbound.receiver.received();
    let event_of: HashMap<&str, String> = received
        .iter()
        .map(|webhook| (webhook.header("x-connect-delivery"), text(&webhook.json()["eventId"]).to_owned()))
        .collect();
    for delivery in &deliveries {
        let event = event_of.get(text(&delivery["id"]));
        assert_eq!(event.map(String::as_str), delivery["event"].as_str(), "received as it is on record");
        assert!(delivery["attempts"].as_i64() >= Some(1), "{delivery}");
    }
    outbound.assert_numbers_have_no_holes().await;
    let distinct: HashSet<&&str> = event_of.keys().collect();
    assert_eq!(distinct.len(), deliveries.len(), "every request is on record");
    received.len() - deliveries.len()
}

#[tokio::test]
async fn killed_dispatchers_keep_failed_and_paused_deliveries() {
    let mut outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_ATTEMPTS", "3")).await;
    let waits = outbound.subscribe("/waits", &[]).await;
    outbound.change_subscription("pause", &waits).await;
    outbound.receiver.respond("/two", Behavior::status(500));
    let burst = burst(&mut outbound, async |world, mut progress| {
        for part in [0.2, 0.5, 0.8] {
            progress.until(part).await;
            world.restart_dispatcher().await;
        }
    })
    .await;
    assert_eq!(burst.interrupted(), 0, "no partner notices");
    burst.assert_applied_once(&outbound.world).await;
    outbound.assert_numbers_have_no_holes().await;
    let (world, receiver) = (&outbound.world, &outbound.receiver);
    let events = world.database.count("SELECT count(*) FROM outbox").await;
    for state in ["delivered", "dead", "pending"] {
        outbound.until_deliveries_within(OUTAGE, state, events).await;
    }
    // Each dead delivery has a dead letter, and no other has.
    let dead = world.database.rows("SELECT delivery_id::text AS id FROM deliveries WHERE state = 'dead'", &[]).await;
    let dead: HashSet<String> = dead.iter().map(|delivery| text(&delivery["id"]).to_owned()).collect();
    eventually("the dead letters are those of the dead deliveries", OUTAGE, async || {
        let letters = world.connectctl.list(&["queue", "show", "webhooks", "--dead"]).await;
        let letters: HashSet<String> = letters.iter().map(|letter| text(&letter["deliveryId"]).to_owned()).collect();
        if letters == dead { Ok(()) } else { Err(format!("{} of {}", letters.len(), dead.len())) }
    })
    .await;

    receiver.respond("/two", Behavior::status(200));
    world.connectctl.json(&["queue", "requeue", "webhooks", "--dead"]).await;
    outbound.change_subscription("resume", &waits).await;
    outbound.until_deliveries_within(OUTAGE, "delivered", 3 * events).await;
    for path in ["/one", "/two", "/waits"] {
        let received = receiver.received_at(path);
        let ids: HashSet<String> = received.iter().map(|webhook| text(&webhook.json()["eventId"]).to_owned()).collect();
        assert_eq!(ids.len() as i64, events, "{path}");
    }
    let dead: Vec<String> = dead.into_iter().collect();
    let sent = "SELECT count(*) FROM attempts WHERE delivery_id::text = ANY($1) AND status = 200";
    let sent = world.database.rows(sent, &[&dead]).await;
    assert_eq!(sent[0]["count"], events, "a replayed delivery is sent once");
}

#[tokio::test]
async fn a_worker_killed_in_a_burst_loses_no_webhook() {
    let mut outbound = OutboundWorld::start().await;
    let burst = burst(&mut outbound, async |world, mut progress| {
        progress.until(0.4).await;
        world.workers[0].kill();
        world.workers.clear();
        world.add_worker().await;
    })
    .await;
    burst.assert_applied_once(&outbound.world).await;
    assert_eq!(assert_all_delivered(&outbound).await, 0, "the dispatcher repeats nothing");
}

#[tokio::test]
async fn a_dispatcher_of_which_half_of_the_connections_hang_delivers_everything() {
    const COUNT: usize = 300;
    let outbound = OutboundWorld::start_with(World::with().through_proxies().workers(0)).await;
    outbound.subscribe("/hooks", &[]).await;
    outbound.insert_outbox_events(COUNT, "lead.assigned").await;
    outbound.receiver.wait_for_at("/hooks", COUNT).await;
    outbound.world.proxies().postgres.stall_half();
    for round in 2..5 {
        outbound.insert_outbox_events(COUNT, "lead.assigned").await;
        outbound.receiver.wait_for_at("/hooks", round * COUNT).await;
    }
    outbound.until_deliveries("delivered", 4 * i64::try_from(COUNT).expect("few")).await;
    outbound.assert_numbers_have_no_holes().await;
}

#[tokio::test]
async fn crashes_of_both_servers_in_a_burst_lose_no_webhook_and_no_page_of_the_feed() {
    let (broker, postgres) = tokio::join!(Broker::start(), Postgres::start());
    let world = World::with().on_broker(broker.url()).on_postgres(postgres.url());
    let mut outbound = OutboundWorld::start_with(world).await;
    let burst = burst(&mut outbound, async |_, mut progress| {
        progress.until(0.3).await;
        broker.stop(StopMode::Immediate).await;
        broker.start_again().await;
        progress.until(0.6).await;
        postgres.stop(StopMode::Immediate).await;
        postgres.start_again().await;
    })
    .await;
    burst.assert_applied_once(&outbound.world).await;
    assert_all_delivered(&outbound).await;
    outbound.assert_a_page_outlives_a_crash(&postgres).await;
}

#[tokio::test]
async fn broken_connections_in_a_burst_lose_no_webhook() {
    let mut outbound = OutboundWorld::start_with(World::with().through_proxies()).await;
    let burst = burst(&mut outbound, async |world, mut progress| {
        for part in [0.2, 0.4] {
            progress.until(part).await;
            world.proxies().broker.reset_connections_once();
            progress.until(part + 0.1).await;
            world.proxies().postgres.reset_connections_once();
        }
    })
    .await;
    burst.assert_applied_once(&outbound.world).await;
    assert_all_delivered(&outbound).await;
}
