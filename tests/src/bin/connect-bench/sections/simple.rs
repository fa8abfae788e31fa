//! The simple case of earlier versions of this benchmark, as one line: one event type with an email each, neighbouring
//! events never about the same person.

use super::throughput::{Row, table};
use crate::events::{self, Shape};
use crate::options::Options;
use crate::prepare::analyze;
use crate::traffic::Traffic;
use tests::World;

pub(crate) async fn run(options: &Options) {
    println!("simple: {}; floor: bare inserts of the same events", Traffic::Simple.composition());
    let world = World::start().await;
    let shape = Shape { traffic: Traffic::Simple, batch: 100, connections: 8 };
    events::load(&world, shape, options.stretch()).await;
    analyze(&world).await;
    let row = Row { label: "batch 100, 8 connections".to_owned(), shape, target: None };
    table(&world, vec![row], options).await;
}
