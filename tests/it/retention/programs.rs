//! The programs remove what expires: by themselves, one at a time, and whenever they are killed.

use super::of;
use serde_json::json;
use tests::{MAX_WAIT, Program, TestDatabase, World, eventually, until_equal};

/// Old events with a delivery each, which has two attempts.
const OLD: i64 = 30_000;

/// What the lock of a step is named in the database.
pub(super) const LOCK: &str = "SELECT pg_advisory_lock(7165066952596222979)";

async fn write_old(database: &TestDatabase, count: i64) {
    database
        .execute(&format!(
            "CREATE TEMP TABLE old AS
                 SELECT tenant_id, n, (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(n::text), 1, 19))::uuid AS id
                 FROM tenants, generate_series(1, {count}) n WHERE slug = 'acme';
             INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
                 SELECT tenant_id, id, 'lead.assigned', 'crm', '{{}}', '2023-12-01' FROM old;
             INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
                 SELECT tenant_id, id, id, tenant_id, 'delivered', '2023-12-01', n FROM old;
             INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
                 SELECT tenant_id, id, attempt, '2023-12-01', 200, 1 FROM old, generate_series(1, 2) attempt"
        ))
        .await;
}

/// The rows of deliveries, attempts and outbox that are left.
async fn left(database: &TestDatabase) -> [i64; 3] {
    let mut counts = [0; 3];
    for (count, table) in counts.iter_mut().zip(["deliveries", "attempts", "outbox"]) {
        *count = database.count(&format!("SELECT count(*) FROM {table}")).await;
    }
    counts
}

async fn until_removed(database: &TestDatabase) {
    eventually("everything old is removed", MAX_WAIT * 2, async || match left(database).await {
        [0, 0, 0] => Ok(()),
        left => Err(format!("{left:?}")),
    })
    .await;
}

/// A world without programs, in which deliveries expire.
async fn world() -> World {
    World::with().ingests(0).workers(0).set("CONNECT_RETENTION_DELIVERIES", "30d").start().await
}

async fn removed(workers: &[Program], what: &str) -> f64 {
    let mut sum = 0.0;
    for worker in workers {
        sum += worker.metrics().await.sum("connect_retention_removed_total", &[("what", what)]);
    }
    sum
}

#[tokio::test]
async fn workers_remove_what_has_expired_and_count_it_once() {
    let mut world = world().await;
    write_old(&world.database, 3_000).await;
    world.add_worker().await;
    world.add_worker().await;
    until_removed(&world.database).await;
    for (what, count) in [("deliveries", 3_000.0), ("attempts", 6_000.0), ("outbox", 3_000.0)] {
        until_equal(what, count, async || removed(&world.workers, what).await).await;
    }
    let metrics = world.workers[0].metrics().await;
    let mut behind: Vec<&str> =
        metrics.of("connect_retention_behind_seconds").map(|sample| sample.labels["what"].as_str()).collect();
    behind.sort_unstable();
    let kept = ["api_key_requests", "deliveries", "outbox", "refused_requests", "replay_jobs"];
    assert_eq!(behind, kept, "only what can expire");
}

#[tokio::test]
async fn nothing_is_removed_while_another_copy_holds_the_lock() {
    let mut world = world().await;
    write_old(&world.database, 1_000).await;
    let holder = world.database.connect().await;
    holder.batch_execute(LOCK).await.expect("the lock");
    world.add_worker().await;
    eventually("the worker has tried", MAX_WAIT, async || {
        let metrics = world.workers[0].metrics().await;
        match metrics.sum("connect_db_transactions_total", &[("name", "retention")]) {
            0.0 => Err("no transaction".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    assert_eq!(left(&world.database).await, [1_000, 2_000, 1_000]);

    let connectctl = world.connectctl.clone();
    let run = tokio::spawn(async move { connectctl.list(&["retention", "run"]).await });
    let waiting = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'connectctl' AND query LIKE '%retention.lock%'";
    world.database.until_count(waiting, 1).await;
    assert_eq!(left(&world.database).await, [1_000, 2_000, 1_000]);
    drop(holder);
    let report = run.await.expect("a report");
    assert_eq!(of(&report, "deliveries", "removed"), &json!(1_000));
    assert_eq!(left(&world.database).await, [0, 0, 0]);
}

/// Deliveries without their attempts, attempts without their delivery, and deliveries without their event.
const BROKEN: &str = "SELECT
    (SELECT count(*) FROM deliveries d WHERE (SELECT count(*) FROM attempts a
                                              WHERE a.tenant_id = d.tenant_id AND a.delivery_id = d.delivery_id) <> 2)
    + (SELECT count(*) FROM attempts a LEFT JOIN deliveries d USING (tenant_id, delivery_id) WHERE d.state IS NULL)
    + (SELECT count(*) FROM deliveries d LEFT JOIN outbox o USING (tenant_id, event_id) WHERE o.origin IS NULL)";

#[tokio::test]
async fn a_worker_that_ends_while_it_removes_leaves_no_delivery_without_its_attempts_or_event() {
    let mut world = world().await;
    write_old(&world.database, OLD).await;
    for least in [0, 5_000, 10_000] {
        world.add_worker().await;
        eventually("some are removed", MAX_WAIT, async || match left(&world.database).await {
            [deliveries, ..] if deliveries < OLD - least => Ok(()),
            left => Err(format!("{left:?}")),
        })
        .await;
        // The first ones are killed, the last one shuts down.
        match least {
            10_000 => assert!(world.workers[0].terminate().await.success()),
            _ => world.workers[0].kill(),
        }
        world.workers.clear();
        assert_eq!(world.database.count(BROKEN).await, 0);
    }
    let [deliveries, ..] = left(&world.database).await;
    assert!(deliveries > 0, "none of them waited until everything was removed");
    world.add_worker().await;
    until_removed(&world.database).await;
}
