//! Rates by number of copies of the programs, the resource that saturates, and the cost of each event and delivery.
//! Writes `docs/capacity.md`.
//!
//! All measurements use one database and one receiver of webhooks; copies are started and ended between them. The
//! points of the curve alternate, so that a ratio stays valid when the machine's speed drifts.

mod backlog;
mod copies;
mod document;
mod load;
mod resources;
mod saturation;

use crate::cpu::CpuMeter;
use crate::figures::median;
use crate::header;
use crate::options::Options;
use crate::prepare::{analyze_tables, fill_database, given_settings, print_warnings};
use backlog::DrainResult;
use common::progress::Progress;
use copies::Copies;
use load::{BenchSetup, BurstResult, DELIVERIES, LoadResult, SHAPE};
use resources::ResourceUsage;
use std::path::Path;
use tests::{Receiver, World};

/// Everything that was measured.
struct CapacityReport {
    /// The hardware, and how busy it was before the run.
    machine: String,
    /// The mix without subscriptions: the cost of an event by itself.
    events: UnitCost,
    /// Bursts from the outbox: the cost of a delivery by itself.
    deliveries: UnitCost,
    curve: Vec<CurvePoint>,
    drains: Vec<DrainResult>,
}

/// The resources that a number of events or deliveries used.
struct UnitCost {
    count: usize,
    /// Completed operations per second.
    rate: f64,
    spent: ResourceUsage,
}

/// A point of the curve, with a result for each round.
struct CurvePoint {
    copies: Copies,
    loads: Vec<LoadResult>,
    bursts: Vec<BurstResult>,
}

pub(crate) async fn run(options: &Options) {
    println!(
        "scale: the mix in batches of {} on {} connections, with copies of the programs,",
        SHAPE.batch, SHAPE.connections
    );
    println!("webhooks are delivered to one receiver, whose CPU time is counted as the load generator's");
    let machine = header::machine();
    let steps = 1 + 2 * options.rounds + Copies::CURVE.len() * options.rounds + backlog::WORKERS.len();
    let mut progress = Progress::begin("steps measured:", steps as u64);
    progress.next("preparing");
    let mut setup = prepare(options).await;
    let events = cost_of_events(&setup, &mut progress, options).await;
    let url = setup.receiver.url("/");
    setup.world.subscribe(&url).await;
    setup.is_subscribed = true;
    let deliveries = cost_of_deliveries(&setup, &mut progress, options).await;
    let curve = curve(&mut setup, &mut progress, options).await;
    // Printed before the backlog is measured, whose callers get 503 on purpose.
    progress.with_bar_hidden(|| print_warnings(&setup.world));
    let mut drains = Vec::new();
    for workers in backlog::WORKERS {
        progress.next(&format!("a backlog drained by workers: {workers}"));
        drains.push(backlog::drain(&mut setup, workers).await);
    }
    progress.end(steps as u64);
    let text = document::text(&CapacityReport { machine, events, deliveries, curve, drains }, options).await;
    print!("{text}");
    write(&text);
}

/// Starts one copy of each program, fills the tables with the pool of people and rows of every kind, and analyzes them.
async fn prepare(options: &Options) -> BenchSetup {
    let given = given_settings();
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let builder = given.iter().fold(builder, |builder, (name, value)| builder.set(name, value));
    let world = builder.start().await;
    fill_database(&world, &world.key).await;
    let (database, meter) = (world.database.connect().await, CpuMeter::new(&world));
    let setup = BenchSetup { world, receiver: Receiver::http(), database, meter, is_subscribed: false };
    setup.load(options.duration()).await;
    analyze_tables(&setup.world).await;
    setup
}

async fn cost_of_events(setup: &BenchSetup, progress: &mut Progress, options: &Options) -> UnitCost {
    let mut loads = Vec::new();
    for _ in 0..options.rounds {
        progress.next("events without subscriptions");
        loads.push(setup.load(options.duration()).await);
    }
    let count = loads.iter().map(|load| load.events).sum();
    let rate = median(loads.iter().map(|load| load.events_rate));
    UnitCost { count, rate, spent: sum(loads.into_iter().map(|load| load.spent)) }
}

async fn cost_of_deliveries(setup: &BenchSetup, progress: &mut Progress, options: &Options) -> UnitCost {
    // The first burst opens connections and declares queues, and is not measured.
    setup.burst().await;
    let mut bursts = Vec::new();
    for _ in 0..options.rounds {
        progress.next("deliveries, nothing else");
        bursts.push(setup.burst().await);
    }
    let rate = median(bursts.iter().map(|burst| burst.rate));
    let count = DELIVERIES * bursts.len();
    UnitCost { count, rate, spent: sum(bursts.into_iter().map(|burst| burst.spent)) }
}

fn sum(costs: impl Iterator<Item = ResourceUsage>) -> ResourceUsage {
    costs.reduce(|all, one| all.plus(&one)).expect("there is at least one round")
}

async fn curve(setup: &mut BenchSetup, progress: &mut Progress, options: &Options) -> Vec<CurvePoint> {
    let point = |copies| CurvePoint { copies, loads: Vec::new(), bursts: Vec::new() };
    let mut points: Vec<CurvePoint> = Copies::CURVE.into_iter().map(point).collect();
    for _ in 0..options.rounds {
        for point in &mut points {
            progress.next(&format!("ingests / workers / dispatchers: {}", point.copies));
            point.copies.apply(&mut setup.world).await;
            // Programs that have just started open their connections and prepare their statements.
            setup.load(options.duration() / 4).await;
            point.loads.push(setup.load(options.duration()).await);
            point.bursts.push(setup.burst().await);
        }
    }
    points
}

/// Writes the document beside the sources that this was built from.
fn write(text: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    let written = std::fs::create_dir_all(&directory);
    let written = written.and_then(|()| std::fs::write(directory.join("capacity.md"), text));
    written.unwrap_or_else(|error| panic!("docs/capacity.md cannot be written: {error}"));
    println!("\nwritten to docs/capacity.md");
}
