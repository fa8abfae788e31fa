//! The command line.

use clap::{Parser, ValueEnum};
use std::time::Duration;

/// Measures a release build under load, each figure beside its floor: the least that the same work costs on the same
/// servers, measured alternately in the same run.
#[derive(Clone, Debug, Parser)]
#[command(name = "connect-bench")]
pub(crate) struct Options {
    /// Sections to measure; without any, all but `scale`, and all with `--document`.
    #[arg(value_enum)]
    sections: Vec<Section>,
    /// Rounds of each measurement; the output has their medians, and how far they differ.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: u32,
    /// Duration of one measured load, in seconds.
    #[arg(long, default_value_t = 2.5)]
    pub(crate) seconds: f64,
    /// Rows that `scale` adds to the event ledger.
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) ledger_rows: u32,
    /// Writes the measured sections into docs/capacity.md, for which `--rounds 5 --seconds 20` is meant.
    #[arg(long)]
    pub(crate) document: bool,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// Batches of 100 events, with and without planner statistics.
    Batches,
    /// Events one by one.
    Single,
    /// Records writes and reads.
    Records,
    /// Deliveries by 1, 2 and 4 dispatchers, and those of a quiet agency beside a flood.
    Webhooks,
    /// A quiet agency's requests while another one sends without pause.
    Fairness,
    /// Requests that are refused.
    Refusals,
    /// Resident sizes of the programs with idle and slow connections, and with bodies that never end.
    Memory,
    /// Several copies of the programs, and a database with ten million rows.
    Scale,
}

impl Section {
    /// The name on the command line and in the document.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Options {
    /// The sections to measure, in their order. `scale` fills a large database and runs on request only.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let is_wanted = |section: &&Section| match self.sections.as_slice() {
            [] => self.document || **section != Section::Scale,
            named => named.contains(section),
        };
        Section::value_variants().iter().filter(is_wanted).copied().collect()
    }

    /// Duration of one measured load.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }

    /// Duration of its floor, which varies less.
    pub(crate) fn floor(&self) -> Duration {
        self.duration() / 10
    }
}
