//! Measures units of work about the same people. A backlog of batches about a pool of existing clients waits in the queue; one
//! worker drains it, with one lane and then with two. The rate is the number of ledger rows per second from the first unit to the
//! last, so a program's start does not count. Floor: the bare inserts of the same traffic over as many connections, measured
//! after each.

use crate::events::{LoadShape, connect_all};
use crate::figures::{median, percent};
use crate::inserts;
use crate::options::Options;
use crate::prepare::{analyze_tables, filled_world};
use crate::traffic::Traffic;
use common::progress::Progress;
use futures_util::future::join_all;
use std::time::Duration;
use tests::{World, eventually};

/// Batches of a backlog for each second of a measurement: a little less than a worker drains in that time.
const BATCHES_PER_SECOND: f64 = 80.0;
const BATCH: usize = 100;
/// Callers that put a backlog into the queue: ingest publishes each batch and responds 503 when no worker replies in time.
const CALLERS: usize = 64;
/// How long ingest waits for a worker that does not run.
pub(super) const REPLY_TIMEOUT: &str = "200ms";
/// Maximum time that draining a backlog may take.
const MAX_WAIT: Duration = Duration::from_secs(120);
/// Ratio of the rate of two lanes to that of one lane.
const TARGET: f64 = 1.6;

pub(crate) async fn run(options: &Options) {
    let batches = (BATCHES_PER_SECOND * options.seconds).ceil() as usize;
    println!(
        "contention: {batches} batches of {BATCH} contact.identified about the pool wait in the queue; then a worker starts"
    );
    let mut world = filled_world().await;
    world.workers.clear();
    world.set("CONNECT_REPLY_TIMEOUT", REPLY_TIMEOUT);
    // All batches must wait while no worker runs.
    world.set("CONNECT_BACKLOG_TARGET", "60s");
    world.restart_ingest().await;
    let (mut one, mut two) = (Vec::new(), Vec::new());
    let (mut floor_of_one, mut floor_of_two) = (Vec::new(), Vec::new());
    let mut progress = Progress::begin("rounds measured:", 2 * options.rounds as u64);
    for _ in 0..options.rounds {
        progress.next("one lane");
        one.push(drain(&mut world, "1", batches).await);
        floor_of_one.push(floor(&world, 1, options).await);
        progress.next("two lanes");
        two.push(drain(&mut world, "2", batches).await);
        floor_of_two.push(floor(&world, 2, options).await);
    }
    progress.end(2 * options.rounds as u64);
    let ratios: Vec<f64> = one.iter().zip(&two).map(|(one, two)| two / one).collect();
    let each: Vec<String> = ratios.iter().map(|ratio| percent(*ratio)).collect();
    for (name, rates, floors) in [("one lane", &one, &floor_of_one), ("two lanes", &two, &floor_of_two)] {
        let of_floor = rates.iter().zip(floors).map(|(rate, floor)| rate / floor);
        println!(
            "  {name}: {:.0} events/s; bare inserts over as many connections {:.0} events/s; ratio {}",
            median(rates.iter().copied()),
            median(floors.iter().copied()),
            percent(median(of_floor))
        );
    }
    let floors: Vec<f64> = floor_of_one.iter().zip(&floor_of_two).map(|(one, two)| two / one).collect();
    println!("  two connections of bare inserts reach {} of one", percent(median(floors)));
    println!(
        "  two lanes reach {} of one, target {} (rounds: {})",
        percent(median(ratios)),
        percent(TARGET),
        each.join(", ")
    );
}

/// Events per second of bare inserts, while no worker runs.
async fn floor(world: &World, connections: usize, options: &Options) -> f64 {
    let shape = LoadShape { traffic: Traffic::Identified, batch: BATCH, connections };
    inserts::floor(world, shape, options.duration()).await.rate
}

/// Fills the queue while no worker runs, and starts a worker with `lanes` lanes that drains it. Returns events per second.
async fn drain(world: &mut World, lanes: &str, batches: usize) -> f64 {
    analyze_tables(world).await;
    let before = world.database.count("SELECT count(*) FROM event_ledger").await;
    put_backlog(world, Traffic::Identified, batches).await;
    let since = common::clock::now();
    world.set("CONNECT_WORKER_LANES", lanes);
    world.add_worker().await;
    let expected = before + i64::try_from(batches * BATCH).expect("few events");
    eventually("the backlog is drained", MAX_WAIT, async || {
        // Polled rarely, because counting takes CPU time from the worker.
        tokio::time::sleep(Duration::from_millis(300)).await;
        if world.queues.depth("events").await > 0 {
            return Err("messages wait in the queue".to_owned());
        }
        let count = world.database.count("SELECT count(*) FROM event_ledger").await;
        if count >= expected { Ok(()) } else { Err(format!("{count} of {expected} events")) }
    })
    .await;
    world.workers.clear();
    let statement = "SELECT extract(epoch FROM max(applied_at) - min(applied_at))::float8 FROM event_ledger
        WHERE applied_at >= $1";
    let row = world.database.connect().await.query_one(statement, &[&since]).await.expect("the units' times");
    (batches * BATCH) as f64 / row.get::<_, f64>(0)
}

/// Puts batches into the queue while no worker runs; ingest needs [`REPLY_TIMEOUT`] and a long backlog target for it.
pub(super) async fn put_backlog(world: &World, traffic: Traffic, batches: usize) {
    let mut callers = connect_all(world, &world.key, CALLERS).await;
    for first in (0..batches).step_by(CALLERS) {
        let count = CALLERS.min(batches - first);
        let put = callers.iter_mut().take(count).map(async |caller| {
            let events = traffic.draw(BATCH, &mut caller.random);
            let (response, _) = caller.request(&events).await;
            let is_queued = response.status == 503 && response.body.contains("processing_timeout");
            assert!(is_queued, "expected processing_timeout: {response:?}");
        });
        join_all(put).await;
    }
}
