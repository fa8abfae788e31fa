//! Queues without consumers, slow or full queues, and unreadable messages.

use super::{contact, until_fires, until_true, watch, watched};
use crate::monitoring::repository_text;
use std::time::{Duration, Instant};
use tests::{MAX_WAIT, World, eventually};

const EVENTS: [(&str, &str); 1] = [("queue", "events")];

#[tokio::test]
async fn a_stopped_worker_fires_no_consumers_and_queue_stalled() {
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
async fn a_queue_without_consumers_fires_near_limit_and_then_refuses() {
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
async fn a_dead_letter_fires_until_it_is_removed() {
    let (world, prometheus) = watched(World::with()).await;
    world.queues.publish("events", b"poison").await;

    let alert = prometheus.until_firing("ConnectMessagesDeadLettered", &[("queue", "events.dead")]).await;
    assert_eq!(alert["annotations"]["summary"], "Messages are in events.dead");
    // The first rise of a counter counts: as in the runbook.
    let why = "sum by (queue, reason) (increase(connect_dead_lettered_total[1d]))";
    assert!(repository_text("ops/RUNBOOK.md").contains(why));
    eventually("the reason is shown", MAX_WAIT, async || {
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
async fn a_stuck_worker_fires_messages_held() {
    let builder = World::with().through_proxies().set("CONNECT_REPLY_TIMEOUT", "300ms");
    let mut world = builder.ingests(0).start().await;
    // Only the worker connects through the proxies.
    let direct = world.database.url().to_owned();
    world.set("DATABASE_URL", &direct);
    world.add_ingest().await;
    world.add_dispatcher().await;
    let prometheus = watch(&world).await;
    world.accept_with_retries(contact()).await;

    world.proxies().postgres.reset_connections();
    for _ in 0..3 {
        world.send(&[contact()]).await.assert_error(503, "processing_timeout");
    }
    let held = [("job", "connect-worker"), ("queue", "events")];
    let alert = prometheus.until_firing("ConnectMessagesUnacknowledged", &held).await;
    assert_eq!(alert["labels"]["severity"], "critical");
    // Nothing waits and everything is consumed, as far as the broker can tell.
    let waiting =
        r#"connect:queue_messages_ready:max{queue="events"} == 0 and connect:queue_consumers:max > 0"#;
    until_true(&prometheus, waiting).await;

    world.proxies().postgres.restore();
    prometheus.until_quiet().await;
}

#[tokio::test]
async fn a_deleted_queue_fires_no_consumers_until_it_is_declared_again() {
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
async fn a_locked_table_fires_queue_lag_and_pool_exhausted() {
    let (world, prometheus) = watched(World::with().set("CONNECT_READ_CONNECTIONS", "1")).await;
    let client = world.database.connect().await;
    client.batch_execute("BEGIN; LOCK TABLE clients IN ACCESS EXCLUSIVE MODE").await.expect("the lock");
    let locked = Instant::now();
    let event = async { world.send(&[contact()]).await };
    let repair = async {
        let exhausted = prometheus.until_firing("ConnectPoolExhausted", &[("pool", "ingest_reads")]);
        let look_up = |n| world.key.records("GET", &format!("/api/v1/crm/connect/clients?phone={n}"), "");
        let mut number = 0;
        until_fires(exhausted, async || {
            number += 3;
            let requests = [look_up(number), look_up(number + 1), look_up(number + 2)];
            futures_util::future::join_all(requests.iter().map(|request| world.http().send(request))).await;
        })
        .await;
        eventually("the event is late", MAX_WAIT, async || match locked.elapsed() {
            age if age > Duration::from_secs(12) => Ok(()),
            age => Err(format!("{age:?}")),
        })
        .await;
        client.batch_execute("COMMIT").await.expect("the lock is released");
    };
    futures_util::join!(event, repair);

    prometheus.until_firing("ConnectQueueLag", &EVENTS).await;
    prometheus.until_quiet().await;
}
