//! The simple case of earlier versions of this benchmark: one event type with an email each; consecutive events are about
//! different people.

use super::throughput::{LoadRow, table};
use crate::events::{self, LoadShape};
use crate::options::Options;
use crate::prepare::analyze_tables;
use crate::traffic::Traffic;
use tests::World;

pub(crate) async fn run(options: &Options) {
    println!("simple: {}; floor: bare inserts of the same events", Traffic::Simple.composition());
    let world = World::start().await;
    let shape = LoadShape { traffic: Traffic::Simple, batch: 100, connections: 8 };
    events::load(&world, shape, options.duration()).await;
    analyze_tables(&world).await;
    let row = LoadRow { label: "batch 100, 8 connections".to_owned(), shape, target: None };
    table(&world, vec![row], options).await;
}
