//! Planner statistics: the same load on tables that were never analyzed, on tables that were analyzed too early, and on
//! analyzed tables with programs that were started afterwards, in three databases of one run. Autovacuum is off in all
//! three. Each figure is given as a part of the third, taken in the same round.

use super::mix;
use crate::events::{self, Shape};
use crate::figures::Stretch;
use crate::figures::{median, millis, percent};
use crate::options::Options;
use crate::prepare::{analyze, create_companies, disable_autovacuum, introduce_pool, print_warnings};
use crate::traffic::Traffic;
use common::progress::Progress;
use futures_util::future::join_all;
use std::time::Duration;
use tests::World;

/// How long single events come before the load, so that statements are planned on tables with few rows.
const SINGLES: Duration = Duration::from_secs(10);
const SINGLE_CALLERS: usize = 4;
/// What tables never analyzed, or analyzed too early, must reach.
const TARGET: f64 = 0.8;

/// When the tables are analyzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistics {
    Never,
    /// While they are empty; with the mix before its first enquiry comes.
    TooEarly,
    /// After all, with programs that are started then.
    Fresh,
}

impl Statistics {
    const ALL: [Self; 3] = [Self::Never, Self::TooEarly, Self::Fresh];

    const fn label(self, traffic: Traffic) -> &'static str {
        match (self, traffic) {
            (Self::Never, _) => "never analyzed",
            (Self::TooEarly, Traffic::Mix) => "analyzed before the first enquiry",
            (Self::TooEarly, _) => "analyzed while empty",
            (Self::Fresh, _) => "analyzed, then programs started",
        }
    }
}

pub(crate) async fn run(options: &Options) {
    println!(
        "cold: the load on tables without good statistics, autovacuum off; {SINGLES:?} of single events come first;"
    );
    println!("the ratio is to analyzed tables with programs started afterwards, target {}", percent(TARGET));
    let identified = Shape { traffic: Traffic::Identified, batch: 100, connections: 8 };
    table(&[identified], options).await;
    table(&[mix::BATCHES, mix::SINGLES], options).await;
}

/// Measures loads of one traffic and prints them.
async fn table(shapes: &[Shape], options: &Options) {
    let traffic = shapes[0].traffic;
    let steps = 1 + shapes.len() * options.rounds;
    let mut progress = Progress::begin("steps done:", steps as u64);
    progress.next("preparing three databases");
    let worlds = join_all(Statistics::ALL.map(|statistics| prepare(statistics, traffic, options))).await;
    for shape in shapes {
        let mut stretches = [const { Vec::new() }; 3];
        for _ in 0..options.rounds {
            progress.next(&format!("{traffic:?}, batch {}", shape.batch));
            for (world, stretches) in worlds.iter().zip(&mut stretches) {
                stretches.push(events::load(world, *shape, options.stretch()).await);
            }
        }
        progress.beside(|| print(*shape, &stretches));
    }
    progress.end(steps as u64);
    worlds.iter().for_each(print_warnings);
}

async fn prepare(statistics: Statistics, traffic: Traffic, options: &Options) -> World {
    let mut world = World::start().await;
    disable_autovacuum(&world).await;
    create_companies(&world, "acme").await;
    if statistics == Statistics::TooEarly && traffic != Traffic::Mix {
        analyze(&world).await;
    }
    singles(&world, Traffic::Identified).await;
    introduce_pool(&world, &world.key).await;
    if traffic == Traffic::Mix {
        if statistics == Statistics::TooEarly {
            analyze(&world).await;
        }
        singles(&world, Traffic::Mix).await;
    }
    if statistics == Statistics::Fresh {
        let shape = Shape { traffic, batch: 100, connections: 8 };
        events::load(&world, shape, options.stretch()).await;
        analyze(&world).await;
        world.restart_ingest().await;
        world.workers.clear();
        world.add_worker().await;
        singles(&world, traffic).await;
    }
    world
}

async fn singles(world: &World, traffic: Traffic) {
    events::load(world, Shape { traffic, batch: 1, connections: SINGLE_CALLERS }, SINGLES).await;
}

fn print(shape: Shape, stretches: &[Vec<Stretch>; 3]) {
    let Shape { traffic, batch, connections } = shape;
    println!("  {traffic:?}, batch {batch}, {connections} connections:");
    println!(
        "{:>36} {:>10} {:>10} {:>10} {:>7}   ratio of each round",
        "", "events/s", "p50", "p99", "ratio"
    );
    let fresh = &stretches[2];
    for (statistics, rounds) in Statistics::ALL.into_iter().zip(stretches) {
        let ratios: Vec<f64> = rounds.iter().zip(fresh).map(|(one, fresh)| one.rate / fresh.rate).collect();
        let each: Vec<String> = ratios.iter().map(|ratio| percent(*ratio)).collect();
        println!(
            "{:>36} {:>10.0} {:>10} {:>10} {:>7}   {}",
            statistics.label(traffic),
            median(rounds.iter().map(|one| one.rate)),
            millis(median(rounds.iter().map(|one| one.p50))),
            millis(median(rounds.iter().map(|one| one.p99))),
            percent(median(ratios)),
            each.join(", ")
        );
    }
}
