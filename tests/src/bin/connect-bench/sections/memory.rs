//! Resident sizes of the programs: at rest, after a load, with thousands of connections, with all of the body budget in
//! use, and afterwards.

use super::held_bodies::{self, HeldBodies};
use super::open_connections::{ConnectionKind, OpenConnections, SIZE, world_with_high_limits};
use crate::events::{self, LoadShape};
use crate::options::Options;
use crate::prepare::fill_database;
use crate::process::{ProcessMemory, memory, reset_peak};
use crate::traffic::Traffic;
use common::progress::Progress;
use std::time::Duration;
use tests::{Program, World};
use tokio::time::sleep;

/// Rest before a size is read that should have shrunk.
const REST: Duration = Duration::from_secs(10);
/// Duration of a state before a size is read that should have grown.
const SETTLE: Duration = Duration::from_secs(1);
const LOAD: LoadShape = LoadShape { traffic: Traffic::Mix, batch: 100, connections: 8 };
const STEPS: u64 = 8;
const MIB: usize = 1 << 20;

/// The label of a state, and each program's memory in it.
struct MemoryRow(String, Vec<ProcessMemory>);

pub(crate) async fn run(options: &Options) {
    println!(
        "memory: resident MiB of each program, and its peak in that step; {SIZE} connections in several states,"
    );
    println!(
        "then {} callers that hold bodies of {} MiB unfinished (CONNECT_BODY_BUDGET is 256 MiB, CONNECT_MAX_BODY 4 MiB);",
        held_bodies::CALLERS,
        held_bodies::BODY / MIB
    );
    println!("CONNECT_MAX_CONNECTIONS is 16384 and CONNECT_BODY_TIMEOUT 120s here, so that the states last");
    let world = world_with_high_limits().set("CONNECT_BODY_TIMEOUT", "120s").dispatchers(1).start().await;
    let mut progress = Progress::begin("states measured:", STEPS);
    let mut rows = Vec::new();
    progress.next("at rest");
    sleep(SETTLE).await;
    rows.push(row("at rest, just started", &world));

    progress.next("after batches");
    begin_step(&world);
    fill_database(&world, &world.key).await;
    events::load(&world, LOAD, options.duration()).await;
    sleep(REST).await;
    rows.push(row(format!("{REST:?} after {:?} of batches", options.duration()), &world));

    for kind in [ConnectionKind::Idle, ConnectionKind::Slow] {
        progress.next(&kind.label());
        begin_step(&world);
        let connections = OpenConnections::open(&world, kind).await;
        sleep(SETTLE).await;
        rows.push(row(kind.label(), &world));
        connections.close().await;
    }
    rest("they were closed", &mut progress, &world, &mut rows).await;

    progress.next("bodies held");
    begin_step(&world);
    let held = HeldBodies::begin(&world).await;
    let bytes = held.count() * held_bodies::BODY / MIB;
    rows.push(row(format!("{} bodies held, {bytes} MiB", held.count()), &world));
    held.hang_up().await;

    rest("they hung up", &mut progress, &world, &mut rows).await;
    // An allocator may give memory back only when it is used again.
    progress.next("after more batches");
    begin_step(&world);
    events::load(&world, LOAD, options.duration()).await;
    sleep(REST).await;
    rows.push(row(format!("{REST:?} after as many batches"), &world));
    progress.end(STEPS);
    print(&world, &rows);
}

/// The programs, in the order of the columns.
fn programs(world: &World) -> impl Iterator<Item = &Program> {
    world.ingests.iter().chain(&world.workers).chain(&world.dispatchers)
}

/// Measures after a rest without load.
async fn rest(after: &str, progress: &mut Progress, world: &World, rows: &mut Vec<MemoryRow>) {
    let label = format!("{REST:?} after {after}");
    progress.next(&label);
    begin_step(world);
    sleep(REST).await;
    rows.push(row(label, world));
}

fn begin_step(world: &World) {
    programs(world).for_each(|program| reset_peak(program.id()));
}

fn row(label: impl Into<String>, world: &World) -> MemoryRow {
    let read = |program: &Program| {
        memory(program.id()).unwrap_or_else(|| panic!("{} does not run any more", program.name()))
    };
    MemoryRow(label.into(), programs(world).map(read).collect())
}

fn print(world: &World, rows: &[MemoryRow]) {
    let mut head = format!("{:>32}", "");
    for program in programs(world) {
        head.push_str(&format!("  {:>18} {:>6}", program.name(), "peak"));
    }
    println!("{head}");
    for MemoryRow(label, sizes) in rows {
        let columns = sizes
            .iter()
            .map(|ProcessMemory { resident, peak, .. }| format!("  {resident:>18.0} {peak:>6.0}"));
        println!("{label:>32}{}", columns.collect::<String>());
    }
    let (first, last) = (rows[0].1[0].resident, rows[rows.len() - 1].1[0].resident);
    println!("ingest at the end: {:.1} times its size at the start", last / first);
}
