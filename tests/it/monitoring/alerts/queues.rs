//! Queues that nobody consumes, that are slow, full, or hold what can't be read.

use super::{contact, until_fires, until_true, watch, watched};
use crate::monitoring::text;
use std::time::{Duration, Instant};
use tests::{PATIENCE, World, eventually};

const EVENTS: [(&str, &str); 1] = [("queue", "events")];

#[tokio::test]
async fn a_worker_that_is_stopped_leaves_a_queue_without_consumers_that_stalls() {
    let (mut world, prometheus) = watched(World::with().set("CONNECT_REPLY_TIMEOUT", "300ms")).await;
    assert_eq!(world.workers.remove(0).terminate().await.code(), Some(0));
    world.send(&[contact()]).await.assert_error(503, "processing_timeout");

    prometheus.until_firing("ConnectNoConsumers", &EVENTS).await;
    prometheus.until_firing("ConnectQueueStalled", &EVENTS).await;
    prometheus.until_firing("ConnectProgramMissing", &[("job", "connect-worker")]).await;
    prometheus.until_firing("ConnectProgramDown", &[("job", "connect-worker")]).await;

    world.add_worker().await;
    prometheus.watch(&world);
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_queue_that_nobody_empties_gets_near_its_limit_and_then_refuses() {
    let builder = World::with().set("CONNECT_QUEUE_MAX_LENGTH", "20").set("CONNECT_REPLY_TIMEOUT", "20ms");
    let (mut world, prometheus) = watched(builder).await;
    world.end_workers().await;

    let refuses = prometheus.until_firing("ConnectQueueRefuses", &EVENTS);
    until_fires(refuses, async || drop(world.send(&[contact()]).await)).await;
    prometheus.until_firing("ConnectQueueNearLimit", &EVENTS).await;

    world.add_worker().await;
    prometheus.watch(&world);
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_an_alert_until_it_is_dealt_with() {
    let (world, prometheus) = watched(World::with()).await;
    world.queues.publish("events", b"poison").await;

    let alert = prometheus.until_firing("ConnectMessagesDeadLettered", &[("queue", "events.dead")]).await;
    assert_eq!(alert["annotations"]["summary"], "Messages are in events.dead");
    // The first rise of a counter counts: as in the runbook.
    let why = "sum by (queue, reason) (increase(connect_dead_lettered_total[1d]))";
    assert!(text("ops/RUNBOOK.md").contains(why));
    eventually("the reason is shown", PATIENCE, async || {
        let why = prometheus.query(&format!("{why} >= 1")).await;
        let told: Vec<_> =
            why.iter().map(|series| (&*series.labels["queue"], &*series.labels["reason"])).collect();
        if told == [("events", "metadata")] { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;

    assert_eq!(world.queues.take("events.dead").await.map(|message| message.body), Some(b"poison".to_vec()));
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_worker_that_is_alive_and_stuck_is_told_of_as_one_that_holds_messages() {
    let builder = World::with().through_proxies().set("CONNECT_REPLY_TIMEOUT", "300ms");
    let mut world = builder.ingests(0).start().await;
    // Of the proxies only the worker's stay in the way.
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.add_ingest().await;
    world.add_dispatcher().await;
    let prometheus = watch(&world).await;
    world.accept_in_time(contact()).await;

    world.proxies().postgres.cut();
    for _ in 0..3 {
        world.send(&[contact()]).await.assert_error(503, "processing_timeout");
    }
    let held = [("job", "connect-worker"), ("queue", "events")];
    let alert = prometheus.until_firing("ConnectMessagesHeld", &held).await;
    assert_eq!(alert["labels"]["severity"], "critical");
    // Nothing waits and everything is consumed, as far as the broker can tell.
    let waiting =
        r#"connect:queue_messages_ready:max{queue="events"} == 0 and connect:queue_consumers:max > 0"#;
    until_true(&prometheus, waiting).await;

    world.proxies().postgres.restore();
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_queue_that_was_deleted_has_no_consumers_until_a_program_declares_it_again() {
    let (mut world, prometheus) = watched(World::with()).await;
    world.queues.delete("crm").await;
    prometheus.until_firing("ConnectNoConsumers", &[("queue", "crm")]).await;
    prometheus
        .until_firing("ConnectProgramNotReady", &[("job", "connect-worker"), ("check", "consuming")])
        .await;

    assert_eq!(world.workers.remove(0).terminate().await.code(), Some(0));
    world.add_worker().await;
    prometheus.watch(&world);
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_table_that_somebody_locks_makes_events_late_and_exhausts_the_pool_of_reads() {
    let (world, prometheus) = watched(World::with().set("CONNECT_READ_CONNECTIONS", "1")).await;
    let client = world.database.connect().await;
    client.batch_execute("BEGIN; LOCK TABLE clients IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    let locked = Instant::now();
    let event = async { world.send(&[contact()]).await };
    let mend = async {
        let exhausted = prometheus.until_firing("ConnectPoolExhausted", &[("pool", "ingest_reads")]);
        let look_up = |n| world.key.records("GET", &format!("/api/v1/crm/connect/clients?phone={n}"), "");
        let mut number = 0;
        until_fires(exhausted, async || {
            number += 3;
            let requests = [look_up(number), look_up(number + 1), look_up(number + 2)];
            futures_util::future::join_all(requests.iter().map(|request| world.http().send(request))).await;
        })
        .await;
        eventually("the event is late", PATIENCE, async || match locked.elapsed() {
            age if age > Duration::from_secs(12) => Ok(()),
            age => Err(format!("{age:?}")),
        })
        .await;
        client.batch_execute("COMMIT").await.expect("the end of the lock");
    };
    futures_util::join!(event, mend);

    prometheus.until_firing("ConnectQueueLag", &EVENTS).await;
    prometheus.until_quiet().await;
}
