//! Retention: what expires, what never does, and what removing it costs. A worker reports for how long the oldest
//! expired row of each table has been due. Messages of dead-letter queues expire only if that is set, and never those
//! of webhooks, which can be replayed.

mod growth;
mod programs;
mod rules;

use chrono::{DateTime, TimeDelta, Utc};
use common::clock;
use programs::LOCK;
use serde_json::Value;
use std::collections::BTreeMap;
use tests::{MAX_WAIT, Program, QueuedMessage, TestDatabase, World, eventually, text};
use uuid::{Timestamp, Uuid};

/// A UUIDv7 of that time.
fn id_at(at: DateTime<Utc>) -> Uuid {
    Uuid::new_v7(Timestamp::from_unix_time(at.timestamp().unsigned_abs(), at.timestamp_subsec_nanos(), 0, 0))
}

fn days_ago(days: i64) -> DateTime<Utc> {
    clock::now() - TimeDelta::days(days)
}

async fn tenant(database: &TestDatabase) -> Uuid {
    let rows = database.rows("SELECT tenant_id FROM tenants WHERE slug = 'acme'", &[]).await;
    text(&rows[0]["tenant_id"]).parse().expect("a UUID")
}

/// An event of the outbox with one delivery, as the dispatcher records them.
struct Webhook {
    event: Uuid,
    delivery: Uuid,
}

impl Webhook {
    /// Writes an event of `at` that was fanned out, and its delivery in `state` with two attempts, the last one `attempted`.
    async fn write(database: &TestDatabase, state: &str, at: DateTime<Utc>, attempted: DateTime<Utc>) -> Self {
        let (event, tenant) = (id_at(at), tenant(database).await);
        // With the time of its event, as the dispatcher derives it.
        let delivery = id_at(at);
        let client = database.connect().await;
        let outbox = "INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
            VALUES ($1, $2, 'lead.assigned', 'crm', '{}', $3)";
        client.execute(outbox, &[&tenant, &event, &at]).await.expect("an event");
        let row = "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, attempts,
                created_at, last_at, number, next_attempt_at)
            SELECT $1, $2, $3, $1, $4, 2, $5, $6, 1 + count(*), CASE $4 WHEN 'pending' THEN $5::timestamptz END
            FROM deliveries";
        client.execute(row, &[&tenant, &delivery, &event, &state, &at, &attempted]).await.expect("a delivery");
        let attempts = "INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
            VALUES ($1, $2, 1, $3, 500, 1), ($1, $2, 2, $4, 200, 1)";
        client.execute(attempts, &[&tenant, &delivery, &at, &attempted]).await.expect("attempts");
        Self { event, delivery }
    }

    /// The number of rows of the outbox, of deliveries and of attempts that are left.
    async fn rows(&self, database: &TestDatabase) -> [i64; 3] {
        let (event, delivery) = (self.event, self.delivery);
        [
            database.count(&format!("SELECT count(*) FROM outbox WHERE event_id = '{event}'")).await,
            database.count(&format!("SELECT count(*) FROM deliveries WHERE delivery_id = '{delivery}'")).await,
            database.count(&format!("SELECT count(*) FROM attempts WHERE delivery_id = '{delivery}'")).await,
        ]
    }
}

/// The field of the report about `what`.
fn of<'r>(reports: &'r [Value], what: &str, field: &str) -> &'r Value {
    let report = reports.iter().find(|report| report["what"] == what);
    &report.unwrap_or_else(|| panic!("nothing about {what}: {reports:?}"))[field]
}

/// What the gauge says of each table, once it says something of all of them.
async fn behind(worker: &Program) -> Result<BTreeMap<String, f64>, String> {
    let metrics = worker.metrics().await;
    let samples = metrics.of("connect_retention_behind_seconds");
    let behind: BTreeMap<String, f64> = samples.map(|sample| (sample.labels["what"].clone(), sample.value)).collect();
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
    let ages = [0, 30, 20, 40, 670 * 24, 0, 0];
    let tables = "api_key_requests audit_records deliveries notifications outbox refused_requests replay_jobs";
    for (what, hours) in tables.split(' ').zip(ages) {
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

#[tokio::test]
async fn dead_letters_expire_only_if_that_is_set_and_never_those_of_webhooks() {
    let world = World::with().dispatchers(1).set("CONNECT_RETENTION_DEAD_LETTERS", "1s").start().await;
    let mut kept = World::start().await;
    for (world, queue) in [(&kept, "events.dead"), (&world, "webhooks.dead"), (&world, "events.dead")] {
        world.until_ready().await;
        world.queues.publish_all(queue, &[QueuedMessage::new(b"a message")]).await;
    }
    world.until_depth("events.dead", 0).await;
    // What the broker dead-letters expires as well.
    world.queues.publish("records", b"unreadable").await;
    world.until_depth("records", 0).await;
    world.workers[0].until_logged("message dead-lettered").await;
    world.until_depth("records.dead", 0).await;
    assert_eq!((world.queues.depth("webhooks.dead").await, kept.queues.depth("events.dead").await), (1, 1));
    // A queue that exists is used as it is.
    kept.set("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    kept.add_worker().await;
    kept.workers[1].until_ready().await;
    kept.workers[1].until_logged("queue exists with other arguments; using it as it is").await;
}
