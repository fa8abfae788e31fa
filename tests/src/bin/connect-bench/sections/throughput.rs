//! Rounds of one shape of load, compared with bare inserts, for `identified`, `mix` and `simple`; and the CPU time of the
//! programs, which `single` prints as well.

use crate::comparison::Comparison;
use crate::cpu::{CpuMeter, CpuTime};
use crate::events::{self, LoadShape};
use crate::inserts;
use crate::options::Options;
use crate::prepare::print_warnings;
use crate::stages::MetricsSnapshot;
use common::progress::Progress;
use tests::World;

/// A row to measure.
pub(crate) struct LoadRow {
    pub(crate) label: String,
    pub(crate) shape: LoadShape,
    pub(crate) target: Option<f64>,
}

/// Measures the rows, prints them as a table, and the CPU time of the programs below it.
pub(crate) async fn table(world: &World, rows: Vec<LoadRow>, options: &Options) {
    let steps = rows.len() * options.rounds;
    let mut progress = Progress::begin("rounds measured:", steps as u64);
    progress.with_bar_hidden(|| Comparison::print_head("events", "bare inserts"));
    let mut notes = Vec::new();
    for row in rows {
        let mut comparison = Comparison::new(&row.label, row.target);
        let mut costs = LoadCosts::begin(world).await;
        for _ in 0..options.rounds {
            progress.next(&row.label);
            let load = events::load(world, row.shape, options.duration()).await;
            costs.add(world, load.count).await;
            comparison.add(load, inserts::floor(world, row.shape, options.duration()).await);
            costs.skip(world).await;
        }
        progress.with_bar_hidden(|| comparison.print());
        notes.push(format!("{}: {}", row.label, costs.text()));
    }
    progress.end(steps as u64);
    println!("CPU time per 1,000 events, and mean times by stage:");
    for note in notes {
        println!("  {note}");
    }
    print_warnings(world);
}

/// CPU time of the programs and times of their stages, without those of the floor.
pub(super) struct LoadCosts {
    meter: CpuMeter,
    used: Option<CpuTime>,
    last: CpuTime,
    reading: MetricsSnapshot,
    stages: String,
    count: usize,
}

impl LoadCosts {
    pub(super) async fn begin(world: &World) -> Self {
        let meter = CpuMeter::new(world);
        let last = meter.read();
        let reading = MetricsSnapshot::take(world).await;
        Self { meter, used: None, last, reading, stages: String::new(), count: 0 }
    }

    /// Adds the CPU time since the last call.
    pub(super) async fn add(&mut self, world: &World, count: usize) {
        let used = self.meter.read().since(&self.last);
        self.used = Some(match self.used.take() {
            Some(before) => before.plus(&used),
            None => used,
        });
        self.count += count;
        let reading = MetricsSnapshot::take(world).await;
        self.stages = reading.since(&self.reading);
    }

    /// Ignores the CPU time since the last call.
    pub(super) async fn skip(&mut self, world: &World) {
        self.last = self.meter.read();
        self.reading = MetricsSnapshot::take(world).await;
    }

    pub(super) fn text(&self) -> String {
        let used = self.used.as_ref().map(|used| used.per_thousand(self.count).to_string());
        format!("{}\n    last round: {}", used.unwrap_or_default(), self.stages)
    }
}
