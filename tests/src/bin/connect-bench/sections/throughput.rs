//! Rounds of one shape of load beside the bare inserts: what `identified`, `mix` and `simple` share; and what the
//! programs spent, which `single` prints, too.

use crate::comparison::Comparison;
use crate::cpu::{Meter, Used};
use crate::events::{self, Shape};
use crate::inserts;
use crate::options::Options;
use crate::prepare::print_warnings;
use crate::stages::Reading;
use common::progress::Progress;
use tests::World;

/// A row to measure.
pub(crate) struct Row {
    pub(crate) label: String,
    pub(crate) shape: Shape,
    pub(crate) target: Option<f64>,
}

/// Measures the rows, prints them as a table, and below it what the programs spent.
pub(crate) async fn table(world: &World, rows: Vec<Row>, options: &Options) {
    let steps = rows.len() * options.rounds;
    let mut progress = Progress::begin("rounds measured:", steps as u64);
    progress.beside(|| Comparison::print_head("events", "bare inserts"));
    let mut notes = Vec::new();
    for row in rows {
        let mut comparison = Comparison::new(&row.label, row.target);
        let mut costs = Costs::begin(world).await;
        for _ in 0..options.rounds {
            progress.next(&row.label);
            let load = events::load(world, row.shape, options.stretch()).await;
            costs.add(world, load.count).await;
            comparison.add(load, inserts::floor(world, row.shape, options.stretch()).await);
            costs.skip(world).await;
        }
        progress.beside(|| comparison.print());
        notes.push(format!("{}: {}", row.label, costs.text()));
    }
    progress.end(steps as u64);
    println!("CPU time per 1,000 events, and mean times by stage:");
    for note in notes {
        println!("  {note}");
    }
    print_warnings(world);
}

/// What the programs used and how long their stages took, without what the floor caused.
pub(super) struct Costs {
    meter: Meter,
    used: Option<Used>,
    last: Used,
    reading: Reading,
    stages: String,
    count: usize,
}

impl Costs {
    pub(super) async fn begin(world: &World) -> Self {
        let meter = Meter::new(world);
        let last = meter.read();
        let reading = Reading::take(world).await;
        Self { meter, used: None, last, reading, stages: String::new(), count: 0 }
    }

    /// Adds what was used since the last call.
    pub(super) async fn add(&mut self, world: &World, count: usize) {
        let used = self.meter.read().since(&self.last);
        self.used = Some(match self.used.take() {
            Some(before) => before.plus(&used),
            None => used,
        });
        self.count += count;
        let reading = Reading::take(world).await;
        self.stages = reading.since(&self.reading);
    }

    /// Leaves out what was used since the last call.
    pub(super) async fn skip(&mut self, world: &World) {
        self.last = self.meter.read();
        self.reading = Reading::take(world).await;
    }

    pub(super) fn text(&self) -> String {
        let used = self.used.as_ref().map(|used| used.per_thousand(self.count).to_string());
        format!("{}\n    last round: {}", used.unwrap_or_default(), self.stages)
    }
}
