//! The records API. Writes at 8 connections and at 1, compared with bare round trips over a quorum queue at the same
//! concurrency; reads compared with the bare look-up; then writes at a steady rate while another tenant sends full batches.

use super::writes::{Integrator, WriteKind, connect_all};
use super::{reads, steady_writes};
use crate::comparison::Comparison;
use crate::cpu::CpuMeter;
use crate::figures::{LoadStats, measure};
use crate::options::Options;
use crate::prepare::{analyze_tables, filled_world, print_warnings};
use crate::round_trips;
use common::progress::Progress;
use futures_util::future::join_all;
use tests::World;

/// Connections, and the ratio to reach.
const WRITES: [(usize, Option<f64>); 2] = [(8, Some(0.35)), (1, None)];
/// Connections of the reads, and the ratio to reach.
const READS: [(usize, f64); 2] = [(8, 0.35), (1, 0.30)];

pub(crate) async fn run(options: &Options) {
    println!(
        "records: signed requests of one tenant; floor of writes: bare round trips over a quorum queue at the same"
    );
    println!("concurrency; floor of reads: the bare prepared SELECT by primary key");
    let world = filled_world().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "1000000"]).await;
    for (connections, target) in WRITES {
        writes(&world, connections, target, options).await;
    }
    read(&world, options).await;
    steady_writes::run(&world, options).await;
    print_warnings(&world);
}

async fn writes(world: &World, connections: usize, target: Option<f64>, options: &Options) {
    let mut integrators = with_leads(world, connections).await;
    analyze_tables(world).await;
    let label = |write: WriteKind| format!("{}, {connections} connections", write.name());
    let mut rows = WriteKind::ALL.map(|write| (write, Comparison::new(label(write), target)));
    let meter = CpuMeter::new(world);
    let mut costs = Vec::new();
    let mut progress = Progress::begin("rounds measured:", options.rounds as u64);
    for _ in 0..options.rounds {
        progress.next(&format!("writes at {connections} connections"));
        let floor = round_trips::floor(world, connections, options.duration()).await;
        for (write, row) in &mut rows {
            let before = meter.read();
            let load = self::load(world, &mut integrators, *write, options).await;
            costs.push((*write, load.count, meter.read().since(&before)));
            row.add(load, floor);
        }
    }
    progress.end(options.rounds as u64);
    Comparison::print_head("writes", "round trips");
    for (write, row) in &rows {
        row.print();
        let of_write = costs.iter().filter(|(of, ..)| of == write);
        let count = of_write.clone().map(|(_, count, _)| count).sum();
        let used = of_write.map(|(.., used)| used.clone()).reduce(|all, one| all.plus(&one));
        if let Some(used) = used {
            println!("{:>38} {}", "CPU time per 1,000:", used.per_thousand(count));
        }
    }
}

async fn with_leads(world: &World, connections: usize) -> Vec<Integrator> {
    let mut integrators = connect_all(world, connections).await;
    join_all(integrators.iter_mut().map(Integrator::create_leads)).await;
    integrators
}

async fn load(
    world: &World,
    integrators: &mut [Integrator],
    write: WriteKind,
    options: &Options,
) -> LoadStats {
    join_all(integrators.iter_mut().map(|integrator| integrator.reconnect(world))).await;
    measure(integrators, options.duration(), 1, async |integrator: &mut Integrator| {
        integrator.write(write).await
    })
    .await
}

async fn read(world: &World, options: &Options) {
    let client = reads::any_client(world).await;
    let mut rows = Vec::new();
    for (connections, target) in READS {
        let mut row =
            Comparison::new(format!("GET /clients/{{id}}, {connections} connections"), Some(target));
        for _ in 0..options.rounds {
            let load = reads::load(world, client, connections, options.duration()).await;
            row.add(load, reads::floor(world, client, connections, options.duration()).await);
        }
        rows.push(row);
    }
    Comparison::print_head("reads", "look-ups");
    rows.iter().for_each(Comparison::print);
}
