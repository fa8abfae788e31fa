//! How rates grow with copies of the programs, what runs out, and what each event and delivery costs. Writes
//! `docs/capacity.md`.
//!
//! All measurements use one database and one receiver of webhooks; copies are started and ended between them. The
//! points of the curve alternate, so that a ratio holds when the machine's speed drifts.

mod backlog;
mod copies;
mod document;
mod load;
mod reading;
mod saturation;

use crate::cpu::Meter;
use crate::figures::median;
use crate::header;
use crate::options::Options;
use crate::prepare::{analyze, fill, given_settings, print_warnings};
use backlog::Drain;
use common::progress::Progress;
use copies::Copies;
use load::{BurstResult, DELIVERIES, LoadResult, SHAPE, Stage};
use reading::Difference;
use std::path::Path;
use tests::{Receiver, World};

/// Everything that was measured.
struct Report {
    /// The hardware, and how busy it was before the run.
    machine: String,
    /// The mix while nobody is subscribed: what an event costs by itself.
    events: Cost,
    /// Bursts from the outbox: what a delivery costs by itself.
    deliveries: Cost,
    curve: Vec<Point>,
    drains: Vec<Drain>,
}

/// What a number of events or deliveries cost.
struct Cost {
    count: usize,
    /// The same in a second.
    rate: f64,
    spent: Difference,
}

/// A point of the curve, with a result for each round.
struct Point {
    copies: Copies,
    loads: Vec<LoadResult>,
    bursts: Vec<BurstResult>,
}

pub(crate) async fn run(options: &Options) {
    println!(
        "scale: the mix in batches of {} on {} connections, with copies of the programs,",
        SHAPE.batch, SHAPE.connections
    );
    println!("webhooks delivered to one receiver whose CPU time counts as the load generator's");
    let machine = header::machine();
    let steps = 1 + 2 * options.rounds + Copies::CURVE.len() * options.rounds + backlog::WORKERS.len();
    let mut progress = Progress::begin("steps measured:", steps as u64);
    progress.next("preparing");
    let mut stage = prepare(options).await;
    let events = cost_of_events(&stage, &mut progress, options).await;
    let url = stage.receiver.url("/");
    stage.world.connectctl.json(&["subscription", "create", "--tenant", "acme", "--url", &url]).await;
    stage.is_subscribed = true;
    let deliveries = cost_of_deliveries(&stage, &mut progress, options).await;
    let curve = curve(&mut stage, &mut progress, options).await;
    // Before the backlog: its callers are answered 503 on purpose.
    progress.beside(|| print_warnings(&stage.world));
    let mut drains = Vec::new();
    for workers in backlog::WORKERS {
        progress.next(&format!("a backlog drained by workers: {workers}"));
        drains.push(backlog::drain(&mut stage, workers).await);
    }
    progress.end(steps as u64);
    let text = document::text(&Report { machine, events, deliveries, curve, drains }, options).await;
    print!("{text}");
    write(&text);
}

/// One copy of each program, the pool of people, tables with rows of every kind, and statistics of them.
async fn prepare(options: &Options) -> Stage {
    let given = given_settings();
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let builder = given.iter().fold(builder, |builder, (name, value)| builder.set(name, value));
    let world = builder.start().await;
    fill(&world, &world.key).await;
    let (database, meter) = (world.database.connect().await, Meter::new(&world));
    let stage = Stage { world, receiver: Receiver::http(), database, meter, is_subscribed: false };
    stage.load(options.stretch()).await;
    analyze(&stage.world).await;
    stage
}

async fn cost_of_events(stage: &Stage, progress: &mut Progress, options: &Options) -> Cost {
    let mut loads = Vec::new();
    for _ in 0..options.rounds {
        progress.next("events, nobody subscribed");
        loads.push(stage.load(options.stretch()).await);
    }
    let count = loads.iter().map(|load| load.events).sum();
    let rate = median(loads.iter().map(|load| load.events_rate));
    Cost { count, rate, spent: sum(loads.into_iter().map(|load| load.spent)) }
}

async fn cost_of_deliveries(stage: &Stage, progress: &mut Progress, options: &Options) -> Cost {
    // The first one opens connections and declares queues.
    stage.burst().await;
    let mut bursts = Vec::new();
    for _ in 0..options.rounds {
        progress.next("deliveries, nothing else");
        bursts.push(stage.burst().await);
    }
    let rate = median(bursts.iter().map(|burst| burst.rate));
    let count = DELIVERIES * bursts.len();
    Cost { count, rate, spent: sum(bursts.into_iter().map(|burst| burst.spent)) }
}

fn sum(costs: impl Iterator<Item = Difference>) -> Difference {
    costs.reduce(|all, one| all.plus(&one)).expect("there is at least one round")
}

async fn curve(stage: &mut Stage, progress: &mut Progress, options: &Options) -> Vec<Point> {
    let point = |copies| Point { copies, loads: Vec::new(), bursts: Vec::new() };
    let mut points: Vec<Point> = Copies::CURVE.into_iter().map(point).collect();
    for _ in 0..options.rounds {
        for point in &mut points {
            progress.next(&format!("ingests / workers / dispatchers: {}", point.copies));
            point.copies.apply(&mut stage.world).await;
            // Programs that have just started open their connections and prepare their statements.
            stage.load(options.stretch() / 4).await;
            point.loads.push(stage.load(options.stretch()).await);
            point.bursts.push(stage.burst().await);
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
