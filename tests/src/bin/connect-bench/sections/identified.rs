//! `contact.identified` in batches of 100 about the pool of people, so that consecutive batches are about the same people.
//! Floor: bare inserts of the same events over as many connections.

use super::throughput::{LoadRow, table};
use crate::events::{self, LoadShape};
use crate::inserts;
use crate::options::Options;
use crate::prepare::{analyze_tables, filled_world};
use crate::traffic::Traffic;

const BATCH: usize = 100;

pub(crate) async fn run(options: &Options) {
    println!("identified: contact.identified, batches of {BATCH}, all people known, tables analyzed;");
    println!(
        "floor: bare multi-row inserts of the same events (ledger, client upsert that sets updated_at, timeline), a transaction a batch"
    );
    let world = filled_world().await;
    inserts::introduce_pool(&world).await;
    let shape = |connections| LoadShape { traffic: Traffic::Identified, batch: BATCH, connections };
    events::load(&world, shape(8), options.duration()).await;
    analyze_tables(&world).await;
    let rows = [(8, 0.55), (1, 0.45)].into_iter().filter(|(connections, _)| options.includes(*connections));
    let row = |(connections, target)| LoadRow {
        label: format!("batch {BATCH}, {connections} connections"),
        shape: shape(connections),
        target: Some(target),
    };
    table(&world, rows.map(row).collect(), options).await;
}
