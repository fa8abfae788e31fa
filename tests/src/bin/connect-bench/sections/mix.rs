//! The mix of event types, in batches of 100 and one by one. Floor: bare inserts of the same events' ledger, client and
//! timeline rows; what enquiries, bookings and discovery write beyond these is not in the floor.

use super::throughput::{Row, table};
use crate::events::{self, Shape};
use crate::inserts;
use crate::options::Options;
use crate::prepare::{analyze, filled_world};
use crate::traffic::Traffic;

/// Batches of 100 at 8 connections.
pub(crate) const BATCHES: Shape = Shape { traffic: Traffic::Mix, batch: 100, connections: 8 };
/// Events one by one at 16 connections.
pub(crate) const SINGLES: Shape = Shape { traffic: Traffic::Mix, batch: 1, connections: 16 };

pub(crate) async fn run(options: &Options) {
    println!("mix: {}; tables analyzed;", Traffic::Mix.composition());
    println!(
        "floor: bare inserts of the same events (ledger, client upsert, timeline only), a transaction a batch"
    );
    let world = filled_world().await;
    inserts::introduce_pool(&world).await;
    events::load(&world, BATCHES, options.stretch()).await;
    analyze(&world).await;
    let row = |shape: Shape, target| Row {
        label: format!("batch {}, {} connections", shape.batch, shape.connections),
        shape,
        target,
    };
    table(&world, vec![row(BATCHES, Some(0.40)), row(SINGLES, None)], options).await;
}
