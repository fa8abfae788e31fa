//! Events that wait in the queue when workers start: how long these take to apply them.

use super::copies::Copies;
use super::load::{SHAPE, Stage};
use crate::bounded::bounded;
use crate::sections::contention::{REPLY_TIMEOUT, put_backlog};
use std::time::{Duration, Instant};
use tests::eventually;

/// Workers that drain it, one number after the other.
pub(super) const WORKERS: [usize; 3] = [1, 2, 4];
/// Batches that wait.
const BATCHES: usize = 200;
/// Longest that a backlog may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// Time between looks: counting costs what the workers could use.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// What draining gave.
pub(super) struct Drain {
    pub(super) workers: usize,
    pub(super) events: usize,
    /// From the start of the first worker to the last event applied.
    pub(super) seconds: f64,
    /// Events a second, between the first and the last unit applied.
    pub(super) rate: f64,
}

/// Lets events wait while no worker runs, starts workers and waits until all is applied.
pub(super) async fn drain(stage: &mut Stage, workers: usize) -> Drain {
    Copies { workers: 0, ..Copies::ONE }.apply(&mut stage.world).await;
    // All of them are to wait, and their callers not to.
    stage.world.set("CONNECT_BACKLOG_TARGET", "60s");
    stage.world.set("CONNECT_REPLY_TIMEOUT", REPLY_TIMEOUT);
    stage.world.restart_ingest().await;
    let events = BATCHES * SHAPE.batch;
    stage.receiver.forget();
    let outbound = stage.outbound().await;
    let wanted = count(stage).await + i64::try_from(events).expect("few events");
    put_backlog(&stage.world, SHAPE.traffic, BATCHES).await;
    let (since, started) = (common::clock::now(), Instant::now());
    for _ in 0..workers {
        stage.world.add_worker().await;
    }
    eventually("the backlog is drained", PATIENCE, async || {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let applied = count(stage).await;
        if applied >= wanted { Ok(()) } else { Err(format!("{applied} of {wanted} events")) }
    })
    .await;
    let seconds = started.elapsed().as_secs_f64();
    stage.until_delivered(outbound).await;
    let statement = "SELECT extract(epoch FROM max(applied_at) - min(applied_at))::float8 FROM event_ledger
        WHERE applied_at >= $1";
    let row = bounded("the units' times are read", stage.database.query_one(statement, &[&since])).await;
    let applying: f64 = row.expect("the units' times").get(0);
    Drain { workers, events, seconds, rate: events as f64 / applying }
}

/// Events applied so far.
async fn count(stage: &Stage) -> i64 {
    let statement = "SELECT count(*) FROM event_ledger";
    let row = bounded("events are counted", stage.database.query_one(statement, &[])).await;
    row.unwrap_or_else(|error| panic!("events cannot be counted: {error:?}")).get(0)
}
