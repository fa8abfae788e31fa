//! A worker reports for how long the oldest expired row of each table has been due.

use super::programs::LOCK;
use super::{Webhook, days_ago};
use chrono::TimeDelta;
use common::clock;
use std::collections::BTreeMap;
use tests::{MAX_WAIT, Program, World, eventually};
use uuid::Uuid;

/// What the gauge says of each table, once it says something of all of them.
async fn behind(worker: &Program) -> Result<BTreeMap<String, f64>, String> {
    let metrics = worker.metrics().await;
    let samples = metrics.of("connect_retention_behind_seconds");
    let behind: BTreeMap<String, f64> =
        samples.map(|sample| (sample.labels["what"].clone(), sample.value)).collect();
    if behind.len() == 7 { Ok(behind) } else { Err(format!("{behind:?}")) }
}

#[tokio::test]
async fn a_worker_reports_for_how_long_the_oldest_expired_row_has_been_due() {
    let world = World::with().ingests(0).workers(0).set("CONNECT_RETENTION_DELIVERIES", "30d");
    let world = world.set("CONNECT_RETENTION_NOTIFICATIONS", "90d").set("CONNECT_RETENTION_AUDIT", "365d");
    let mut world = world.start().await;
    let hours = TimeDelta::hours;
    for (state, at, attempted) in [
        ("dead", days_ago(700), days_ago(700)),
        ("delivered", days_ago(700), days_ago(1)),
        ("delivered", days_ago(700), days_ago(30) - hours(10)),
        ("dropped", days_ago(30) - hours(20), days_ago(30) - hours(20)),
        ("delivered", days_ago(20), days_ago(20)),
    ] {
        Webhook::write(&world.database, state, at, attempted).await;
    }
    crate::connectctl::audit::add_records(&world.database, days_ago(365) - hours(30), 1).await;
    let client = world.database.connect().await;
    for age in [hours(40), hours(-1)] {
        let at = days_ago(90) - age;
        let notification = "INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
            SELECT tenant_id, $1, $2, 'ada@acme.test', 'lead_assigned', 'x' FROM tenants WHERE slug = 'acme'";
        client.execute(notification, &[&Uuid::now_v7(), &at]).await.expect("a notification");
    }

    let holder = world.database.connect().await;
    holder.batch_execute(LOCK).await.expect("the lock");
    let began = clock::now();
    world.add_worker().await;
    let first = eventually("the worker has looked", MAX_WAIT, async || behind(&world.workers[0]).await).await;
    // The ages were whole hours somewhat before.
    let elapsed = (clock::now() - began).as_seconds_f64() + 60.0;
    // The event of a replayed delivery is as old as before.
    let expected = [
        ("api_key_requests", 0),
        ("audit_records", 30),
        ("deliveries", 20),
        ("notifications", 40),
        ("outbox", 670 * 24),
        ("refused_requests", 0),
        ("replay_jobs", 0),
    ];
    for (what, hours) in expected {
        let expected = f64::from(hours * 3_600);
        assert!((expected..expected + elapsed).contains(&first[what]), "{what}: {first:?}");
    }

    drop(holder);
    world.add_worker().await;
    eventually("everything is removed", MAX_WAIT, async || {
        let behind = behind(&world.workers[1]).await?;
        if behind.values().all(|behind| *behind == 0.0) { Ok(()) } else { Err(format!("{behind:?}")) }
    })
    .await;
}
