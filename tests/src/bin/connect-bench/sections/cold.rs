//! Planner statistics: the same load on tables that were never analyzed, on tables that were analyzed too early, and on
//! analyzed tables with programs that were started afterwards, in three databases of one run. Autovacuum is off in all
//! three. Each figure is compared with that of the third in the same round.

use super::mix;
use crate::events::{self, LoadShape};
use crate::figures::LoadStats;
use crate::figures::{median, millis, percent};
use crate::options::Options;
use crate::prepare::{analyze_tables, create_companies, disable_autovacuum, introduce_pool, print_warnings};
use crate::traffic::Traffic;
use common::progress::Progress;
use futures_util::future::join_all;
use std::time::Duration;
use tests::World;

/// Duration of the single events before the load, so that statements are planned on tables with few rows.
const SINGLES: Duration = Duration::from_secs(10);
const SINGLE_CALLERS: usize = 4;
/// Ratio that tables never analyzed, or analyzed too early, must reach.
const TARGET: f64 = 0.8;

/// When the tables are analyzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnalyzeTiming {
    Never,
    /// While the tables are empty; with the mix before its first enquiry.
    TooEarly,
    /// After all events, with programs that are started afterwards.
    Fresh,
}

impl AnalyzeTiming {
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
        "cold: the load on tables without good statistics, autovacuum off; {SINGLES:?} of single events are sent first;"
    );
    println!("the ratio is to analyzed tables with programs started afterwards, target {}", percent(TARGET));
    let identified = LoadShape { traffic: Traffic::Identified, batch: 100, connections: 8 };
    table(&[identified], options).await;
    table(&[mix::BATCHES, mix::SINGLES], options).await;
}

/// Measures loads of one traffic and prints them.
async fn table(shapes: &[LoadShape], options: &Options) {
    let traffic = shapes[0].traffic;
    let steps = 1 + shapes.len() * options.rounds;
    let mut progress = Progress::begin("steps done:", steps as u64);
    progress.next("preparing three databases");
    let worlds = join_all(AnalyzeTiming::ALL.map(|statistics| prepare(statistics, traffic, options))).await;
    for shape in shapes {
        let mut stats = [const { Vec::new() }; 3];
        for _ in 0..options.rounds {
            progress.next(&format!("{traffic:?}, batch {}", shape.batch));
            for (world, stats) in worlds.iter().zip(&mut stats) {
                stats.push(events::load(world, *shape, options.duration()).await);
            }
        }
        progress.with_bar_hidden(|| print(*shape, &stats));
    }
    progress.end(steps as u64);
    worlds.iter().for_each(print_warnings);
}

async fn prepare(statistics: AnalyzeTiming, traffic: Traffic, options: &Options) -> World {
    let mut world = World::start().await;
    disable_autovacuum(&world).await;
    create_companies(&world, "acme").await;
    if statistics == AnalyzeTiming::TooEarly && traffic != Traffic::Mix {
        analyze_tables(&world).await;
    }
    singles(&world, Traffic::Identified).await;
    introduce_pool(&world, &world.key).await;
    if traffic == Traffic::Mix {
        if statistics == AnalyzeTiming::TooEarly {
            analyze_tables(&world).await;
        }
        singles(&world, Traffic::Mix).await;
    }
    if statistics == AnalyzeTiming::Fresh {
        let shape = LoadShape { traffic, batch: 100, connections: 8 };
        events::load(&world, shape, options.duration()).await;
        analyze_tables(&world).await;
        world.restart_ingest().await;
        world.workers.clear();
        world.add_worker().await;
        singles(&world, traffic).await;
    }
    world
}

async fn singles(world: &World, traffic: Traffic) {
    events::load(world, LoadShape { traffic, batch: 1, connections: SINGLE_CALLERS }, SINGLES).await;
}

fn print(shape: LoadShape, stats: &[Vec<LoadStats>; 3]) {
    let LoadShape { traffic, batch, connections } = shape;
    println!("  {traffic:?}, batch {batch}, {connections} connections:");
    println!(
        "{:>36} {:>10} {:>10} {:>10} {:>7}   ratio of each round",
        "", "events/s", "p50", "p99", "ratio"
    );
    let fresh = &stats[2];
    for (statistics, rounds) in AnalyzeTiming::ALL.into_iter().zip(stats) {
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
