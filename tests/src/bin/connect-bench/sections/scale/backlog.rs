//! The time that newly started workers need to drain a backlog of events.

use super::copies::Copies;
use super::load::{BenchSetup, SHAPE};
use crate::sections::contention::{REPLY_TIMEOUT, put_backlog};
use crate::time_limit::with_step_timeout;
use std::time::{Duration, Instant};
use tests::eventually;

/// Numbers of workers, measured one after the other.
pub(super) const WORKERS: [usize; 3] = [1, 2, 4];
/// Number of batches in the backlog.
const BATCHES: usize = 200;
/// Maximum time that draining a backlog may take.
const MAX_WAIT: Duration = Duration::from_secs(300);
/// Interval of the checks: counting takes CPU time from the workers.
const POLL_INTERVAL: Duration = Duration::from_millis(250);

/// The result of draining a backlog.
pub(super) struct DrainResult {
    pub(super) workers: usize,
    pub(super) events: usize,
    /// From the start of the first worker to the last event applied.
    pub(super) seconds: f64,
    /// Events a second, between the first and the last unit applied.
    pub(super) rate: f64,
}

/// Lets events wait while no worker runs, starts workers and waits until all is applied.
pub(super) async fn drain(setup: &mut BenchSetup, workers: usize) -> DrainResult {
    Copies { workers: 0, ..Copies::ONE }.apply(&mut setup.world).await;
    // All events must wait in the queue, but their callers must not wait for replies.
    setup.world.set("CONNECT_BACKLOG_TARGET", "60s");
    setup.world.set("CONNECT_REPLY_TIMEOUT", REPLY_TIMEOUT);
    setup.world.restart_ingest().await;
    let events = BATCHES * SHAPE.batch;
    setup.receiver.clear_received();
    let outbound = setup.outbound().await;
    let wanted = count(setup).await + i64::try_from(events).expect("few events");
    put_backlog(&setup.world, SHAPE.traffic, BATCHES).await;
    let (since, started) = (common::clock::now(), Instant::now());
    for _ in 0..workers {
        setup.world.add_worker().await;
    }
    eventually("the backlog is drained", MAX_WAIT, async || {
        tokio::time::sleep(POLL_INTERVAL).await;
        let applied = count(setup).await;
        if applied >= wanted { Ok(()) } else { Err(format!("{applied} of {wanted} events")) }
    })
    .await;
    let seconds = started.elapsed().as_secs_f64();
    setup.until_delivered(outbound).await;
    let statement = "SELECT extract(epoch FROM max(applied_at) - min(applied_at))::float8 FROM event_ledger
        WHERE applied_at >= $1";
    let row =
        with_step_timeout("the units' times are read", setup.database.query_one(statement, &[&since])).await;
    let applying: f64 = row.expect("the units' times").get(0);
    DrainResult { workers, events, seconds, rate: events as f64 / applying }
}

/// Events applied so far.
async fn count(setup: &BenchSetup) -> i64 {
    let statement = "SELECT count(*) FROM event_ledger";
    let row = with_step_timeout("events are counted", setup.database.query_one(statement, &[])).await;
    row.unwrap_or_else(|error| panic!("events cannot be counted: {error:?}")).get(0)
}
