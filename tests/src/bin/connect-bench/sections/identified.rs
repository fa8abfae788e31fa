//! `contact.identified` in batches of 100 about the pool of people, so that neighbouring batches concern the same ones.
//! Floor: bare inserts of the same events over as many connections.

use super::throughput::{Row, table};
use crate::events::{self, Shape};
use crate::inserts;
use crate::options::Options;
use crate::prepare::{analyze, filled_world};
use crate::traffic::Traffic;

const BATCH: usize = 100;

pub(crate) async fn run(options: &Options) {
    println!("identified: contact.identified, batches of {BATCH}, all people known, tables analyzed;");
    println!(
        "floor: bare multi-row inserts of the same events (ledger, client upsert that sets updated_at, timeline), a transaction a batch"
    );
    let world = filled_world().await;
    inserts::introduce_pool(&world).await;
    let shape = |connections| Shape { traffic: Traffic::Identified, batch: BATCH, connections };
    events::load(&world, shape(8), options.stretch()).await;
    analyze(&world).await;
    let rows = [(8, 0.55), (1, 0.45)].into_iter().filter(|(connections, _)| options.includes(*connections));
    let row = |(connections, target)| Row {
        label: format!("batch {BATCH}, {connections} connections"),
        shape: shape(connections),
        target: Some(target),
    };
    table(&world, rows.map(row).collect(), options).await;
}
