//! The mix of event types, in batches of 100 and one by one. Floor: bare inserts of the same events' ledger, client and
//! timeline rows; the floor excludes the other rows of enquiries, bookings and discoveries.

use super::throughput::{LoadRow, table};
use crate::events::{self, LoadShape};
use crate::inserts;
use crate::options::Options;
use crate::prepare::{analyze_tables, filled_world};
use crate::traffic::Traffic;

/// Batches of 100 at 8 connections.
pub(crate) const BATCHES: LoadShape = LoadShape { traffic: Traffic::Mix, batch: 100, connections: 8 };
/// Events one by one at 16 connections.
pub(crate) const SINGLES: LoadShape = LoadShape { traffic: Traffic::Mix, batch: 1, connections: 16 };

pub(crate) async fn run(options: &Options) {
    println!("mix: {}; tables analyzed;", Traffic::Mix.composition());
    println!(
        "floor: bare inserts of the same events (ledger, client upsert, timeline only), a transaction a batch"
    );
    let world = filled_world().await;
    inserts::introduce_pool(&world).await;
    events::load(&world, BATCHES, options.duration()).await;
    analyze_tables(&world).await;
    let row = |shape: LoadShape, target| LoadRow {
        label: format!("batch {}, {} connections", shape.batch, shape.connections),
        shape,
        target,
    };
    table(&world, vec![row(BATCHES, Some(0.40)), row(SINGLES, None)], options).await;
}
