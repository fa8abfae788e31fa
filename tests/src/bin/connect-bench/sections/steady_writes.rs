//! `POST /clients` at a steady rate, and reads, while another tenant sends full batches of events without pause; compared
//! with the same requests without other load.

use super::reads;
use super::writes::create_client;
use crate::events::{EventCaller, connect_all};
use crate::figures::{LoadStats, median, millis, timed};
use crate::open_loop::{IdleConnections, steady};
use crate::options::Options;
use crate::prepare::{analyze_tables, api_address, fill_database};
use crate::random::Random;
use crate::traffic::Traffic;
use common::progress::Progress;
use futures_util::future::join_all;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};
use tests::{ApiKey, World};
use uuid::Uuid;

/// Rate of the writes, per second.
const STEADY: f64 = 20.0;
/// Connections of the other tenant, and the events of its batches.
const SENDERS: usize = 8;
const BATCH: usize = 100;
/// Connections of the reads.
const READERS: usize = 8;
/// A measurement lasts this many times the normal duration, because 20 writes a second are few.
const DURATION_FACTOR: u32 = 2;

/// The results of one round.
struct Round {
    writes: LoadStats,
    reads: LoadStats,
}

pub(crate) async fn run(world: &World, options: &Options) {
    let other = world.add_tenant("burst").await;
    fill_database(world, &other).await;
    analyze_tables(world).await;
    let client = reads::any_client(world).await;
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    let mut events = Vec::new();
    let mut progress = Progress::begin("rounds measured:", 2 * options.rounds as u64);
    for _ in 0..options.rounds {
        progress.next("writes at a steady rate, idle");
        idle.push(round(world, client, options).await);
        progress.next("writes at a steady rate, beside another tenant's burst");
        let (done, rate) = during_burst(world, &other, round(world, client, options)).await;
        busy.push(done);
        events.push(rate);
    }
    progress.end(2 * options.rounds as u64);
    println!(
        "beside another tenant's burst: contact.identified, batches of {BATCH} on {SENDERS} connections,"
    );
    println!("{:.0} events/s of it", median(events));
    print(&format!("POST /clients, {STEADY}/s"), &idle, &busy, |round| &round.writes);
    print(&format!("GET /clients/{{id}}, {READERS} connections"), &idle, &busy, |round| &round.reads);
    println!("target: p99 of POST /clients at most 2 times the idle one");
}

fn print(label: &str, idle: &[Round], busy: &[Round], part: fn(&Round) -> &LoadStats) {
    let middle = |rounds: &[Round], figure: fn(&LoadStats) -> f64| {
        median(rounds.iter().map(|round| figure(part(round))))
    };
    let times = |rounds: &[Round]| {
        let (p50, p99) = (middle(rounds, |one| one.p50), middle(rounds, |one| one.p99));
        format!("{:.0}/s, p50 {}, p99 {}", middle(rounds, |one| one.rate), millis(p50), millis(p99))
    };
    let ratio = |figure: fn(&LoadStats) -> f64| {
        median(idle.iter().zip(busy).map(|(idle, busy)| figure(part(busy)) / figure(part(idle))))
    };
    let (p50, p99) = (ratio(|one| one.p50), ratio(|one| one.p99));
    println!("{label:>34}  idle: {}; during the burst: {}", times(idle), times(busy));
    println!("{:>38}  p50 {p50:.1} times, p99 {p99:.1} times the idle one", "");
}

async fn round(world: &World, client: Uuid, options: &Options) -> Round {
    let writes = steady_writes(world, options.duration() * DURATION_FACTOR).await;
    Round { writes, reads: reads::load(world, client, READERS, options.duration() / 2).await }
}

async fn steady_writes(world: &World, length: Duration) -> LoadStats {
    let (idle, random) = (IdleConnections::connect(api_address(world), 4).await, RefCell::new(Random::new()));
    let started = Instant::now();
    let write = async || {
        let request = create_client(&world.key, &random.borrow_mut().uuid().to_string());
        let mut caller = idle.take().await;
        let (response, took) = timed(caller.send(&request)).await;
        assert_eq!(response.status, 201, "{response:?}");
        idle.put_back(caller);
        took
    };
    let times = steady(STEADY, length, write).await;
    LoadStats::new(times.len(), started.elapsed(), times)
}

/// Awaits `work` while the other tenant sends; also returns the events per second of that tenant.
async fn during_burst<T>(world: &World, other: &ApiKey, work: impl Future<Output = T>) -> (T, f64) {
    let mut senders = connect_all(world, other, SENDERS).await;
    let (is_over, started) = (Cell::new(false), Instant::now());
    let send = async |sender: &mut EventCaller| {
        let mut batches = 0;
        while !is_over.get() {
            let events = Traffic::Identified.draw(BATCH, &mut sender.random);
            sender.send(&events).await;
            batches += 1;
        }
        batches
    };
    let work = async {
        let done = work.await;
        is_over.set(true);
        (done, started.elapsed().as_secs_f64())
    };
    let (batches, (done, took)) = futures_util::join!(join_all(senders.iter_mut().map(send)), work);
    (done, (batches.iter().sum::<usize>() * BATCH) as f64 / took)
}
