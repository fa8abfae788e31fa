//! Signed batches while 4,096 idle or 4,096 slow connections are open. Floor: the same without them, in the same round.

use super::open_connections::{ConnectionKind, OpenConnections, SIZE, world_with_high_limits};
use crate::comparison::Comparison;
use crate::events::{self, LoadShape};
use crate::options::Options;
use crate::prepare::{analyze_tables, fill_database, print_warnings};
use crate::traffic::Traffic;
use common::progress::Progress;

/// Connections of the load.
const CONNECTIONS: [usize; 2] = [1, 8];
/// Ratio to the rate without those connections.
const TARGET: f64 = 0.9;

pub(crate) async fn run(options: &Options) {
    println!(
        "idle: contact.identified, batches of 100, while {SIZE} other connections are open; CONNECT_MAX_CONNECTIONS"
    );
    println!("is 16384 here, so that none of them is closed early; floor: the same without them");
    let world = world_with_high_limits().start().await;
    fill_database(&world, &world.key).await;
    analyze_tables(&world).await;
    let steps = 2 * options.rounds;
    let mut progress = Progress::begin("rounds measured:", steps as u64);
    let mut rows = Vec::new();
    for kind in [ConnectionKind::Idle, ConnectionKind::Slow] {
        let mut comparisons = CONNECTIONS.map(|connections| {
            let (others, s) = (kind.label(), if connections == 1 { "" } else { "s" });
            Comparison::new(format!("{others}, {connections} sender{s}"), Some(TARGET))
        });
        for _ in 0..options.rounds {
            progress.next(&kind.label());
            let connections = OpenConnections::open(&world, kind).await;
            let mut loads = Vec::new();
            for connections in CONNECTIONS {
                loads.push(events::load(&world, shape(connections), options.duration()).await);
            }
            connections.close().await;
            for ((comparison, load), connections) in comparisons.iter_mut().zip(loads).zip(CONNECTIONS) {
                comparison.add(load, events::load(&world, shape(connections), options.duration()).await);
            }
        }
        rows.extend(comparisons);
    }
    progress.end(steps as u64);
    Comparison::print_head("events", "without");
    rows.iter().for_each(Comparison::print);
    print_warnings(&world);
}

const fn shape(connections: usize) -> LoadShape {
    LoadShape { traffic: Traffic::Identified, batch: 100, connections }
}
