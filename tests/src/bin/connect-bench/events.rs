//! Batches of events: rate and latency by batch size and concurrency, beside the floor.

use crate::figures::{Stretch, median, millis};
use crate::floor::Floor;
use crate::stages::Reading;
use crate::{cpu, traffic};
use common::progress::Progress;
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::World;

const BATCHES: [usize; 3] = [1, 10, 100];
const CONCURRENCIES: [usize; 3] = [1, 8, 32];
/// Rounds, of which the median counts.
const ROUNDS: usize = 3;
/// How long each stretch lasts.
const STRETCH: Duration = Duration::from_millis(2_000);

/// Runs it all, or the batch and concurrency `wanted`, and prints the table.
pub(crate) async fn run(world: &World, wanted: &[usize]) {
    load(world, 10, 8, "warm").await;
    println!(
        "events: signed batches, answered after commit; the floor is the bare inserts of the same events"
    );
    println!(
        "{:>6} {:>12} {:>12} {:>10} {:>10} {:>12} {:>8}",
        "batch", "concurrency", "events/s", "p50", "p99", "floor ev/s", "ratio"
    );
    let is_wanted = |value: usize, place: usize| wanted.get(place).is_none_or(|wanted| *wanted == value);
    let batches: Vec<usize> = BATCHES.into_iter().filter(|batch| is_wanted(*batch, 0)).collect();
    let concurrencies: Vec<usize> =
        CONCURRENCIES.into_iter().filter(|concurrency| is_wanted(*concurrency, 1)).collect();
    let rounds = batches.len() * concurrencies.len() * ROUNDS;
    let mut progress = Progress::begin("rounds measured:", rounds as u64);
    for batch in &batches {
        for concurrency in &concurrencies {
            cell(world, *batch, *concurrency, &mut progress).await;
        }
    }
    progress.end(rounds as u64);
    println!("where the time goes, at concurrency 8:");
    for batch in batches {
        stages(world, batch).await;
    }
}

async fn stages(world: &World, batch: usize) {
    let (before, used) = (Reading::take(world).await, cpu::seconds());
    let stretch = load(world, batch, 8, "stages").await;
    let events = stretch.rate * STRETCH.as_secs_f64();
    let spent = cpu::per_thousand(&used, &cpu::seconds(), events);
    println!("{batch:>6} {}", Reading::take(world).await.since(&before));
    println!("       processor for 1,000 events: {spent}");
}

async fn cell(world: &World, batch: usize, concurrency: usize, progress: &mut Progress) {
    let mut loads = Vec::new();
    let mut floors = Vec::new();
    for round in 0..ROUNDS {
        progress.next(&format!("batches of {batch}, {concurrency} at once"));
        loads.push(load(world, batch, concurrency, &format!("l{batch}c{concurrency}r{round}")).await);
        floors.push(floor(world, batch, concurrency, &format!("f{batch}c{concurrency}r{round}")).await);
    }
    let rate = median(loads.iter().map(|load| load.rate));
    let floor = median(floors.iter().copied());
    let ratio = median(loads.iter().zip(&floors).map(|(load, floor)| load.rate / floor));
    let p50 = millis(median(loads.iter().map(|load| load.p50.as_secs_f64())));
    let p99 = millis(median(loads.iter().map(|load| load.p99.as_secs_f64())));
    let percent = ratio * 100.0;
    progress.beside(|| {
        println!(
            "{batch:>6} {concurrency:>12} {rate:>12.0} {p50:>10} {p99:>10} {floor:>12.0} {percent:>7.0}%"
        );
    });
}

/// Sends batches from `concurrency` partners at once, for one stretch.
async fn load(world: &World, batch: usize, concurrency: usize, run: &str) -> Stretch {
    let started = Instant::now();
    let partner = || async {
        let mut times = Vec::new();
        while started.elapsed() < STRETCH {
            let request = world.key.events(traffic::body(&traffic::next(run, batch)));
            let sent = Instant::now();
            let answer = world.http().send(&request).await;
            let all = format!(r#"{{"accepted":{batch},"#);
            assert!(answer.status == 200 && answer.body.starts_with(all.as_bytes()), "{answer:?}");
            times.push(sent.elapsed());
        }
        times
    };
    let times: Vec<Duration> = join_all((0..concurrency).map(|_| partner())).await.concat();
    Stretch::new(times.len() * batch, started.elapsed(), times)
}

/// Writes the same straight to Postgres over as many connections; events in a second.
async fn floor(world: &World, batch: usize, concurrency: usize, run: &str) -> f64 {
    let connect = || async { Floor::new(world.database.connect().await).await };
    let floors = join_all((0..concurrency).map(|_| connect())).await;
    let started = Instant::now();
    let writer = |mut floor: Floor| async move {
        let mut written = 0;
        while started.elapsed() < STRETCH {
            floor.write(&traffic::next(run, batch)).await;
            written += batch;
        }
        written
    };
    let written: usize = join_all(floors.into_iter().map(writer)).await.into_iter().sum();
    written as f64 / started.elapsed().as_secs_f64()
}
