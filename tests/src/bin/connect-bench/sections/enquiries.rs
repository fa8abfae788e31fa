//! Enquiries one by one over 16 connections, with the CPU time that each program spends on them. Floor: bare
//! round trips over a quorum queue at the same concurrency.

use crate::comparison::Comparison;
use crate::cpu::{CpuMeter, CpuTime};
use crate::events::{self, LoadShape};
use crate::options::Options;
use crate::prepare::{analyze_tables, filled_world, print_warnings};
use crate::round_trips;
use crate::traffic::Traffic;
use common::progress::Progress;

/// Single enquiries over 16 connections.
pub(crate) const SHAPE: LoadShape = LoadShape { traffic: Traffic::Enquiries, batch: 1, connections: 16 };

pub(crate) async fn run(options: &Options) {
    println!("enquiries: enquiry.submitted of known people, batch 1, 16 connections, no subscriptions;");
    println!("floor: bare round trips over a quorum queue");
    let world = filled_world().await;
    events::load(&world, SHAPE, options.duration()).await;
    analyze_tables(&world).await;
    let meter = CpuMeter::new(&world);
    let mut comparison = Comparison::new("batch 1, 16 connections", None);
    let (mut costs, mut count) = (None, 0);
    let mut progress = Progress::begin("rounds measured:", options.rounds as u64);
    for _ in 0..options.rounds {
        progress.next("enquiries one by one");
        let before = meter.read();
        let load = events::load(&world, SHAPE, options.duration()).await;
        let used = meter.read().since(&before);
        costs = Some(costs.map_or(used.clone(), |costs: CpuTime| costs.plus(&used)));
        count += load.count;
        comparison.add(load, round_trips::floor(&world, SHAPE.connections, options.duration()).await);
    }
    progress.end(options.rounds as u64);
    Comparison::print_head("events", "round trips");
    comparison.print();
    if let Some(costs) = costs {
        println!("CPU time per 1,000 events: {}", costs.per_thousand(count));
    }
    println!("targets: 2,000/s at 1.0 s per 1,000 events over all programs");
    print_warnings(&world);
}
