//! The command line.

use clap::{Parser, ValueEnum};
use std::time::Duration;

/// Measures a release build under load, each figure compared with its floor, measured alternately in the same run.
///
/// Every wait has a time limit: a step that exceeds it ends the run with a line that names the step.
#[derive(Clone, Debug, Parser)]
#[command(name = "connect-bench")]
pub(crate) struct Options {
    /// Sections to measure; all but `pages`, `scale` and `soak` by default.
    #[arg(value_enum)]
    pub(crate) sections: Vec<Section>,
    /// Rounds of each measurement; prints the median of the rounds, or evaluates all their requests together.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(crate) rounds: usize,
    /// Duration of one measured load, in seconds.
    #[arg(long, default_value_t = 2.5, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Numbers of connections in `identified` and `single`; all of theirs by default.
    #[arg(long, value_delimiter = ',')]
    pub(crate) connections: Vec<usize>,
    /// Number of event ledger rows in `large`.
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) ledger_rows: u64,
    /// Number of clients in `large`.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) clients: u64,
    /// Number of deliveries in `pages`.
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) deliveries: u64,
    /// Duration of `soak`, in minutes.
    #[arg(long, default_value_t = 60.0, value_parser = minutes)]
    pub(crate) minutes: f64,
}

/// A part of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Section {
    /// contact.identified of people with three identities, batches of 100.
    Identified,
    /// A mix of event types, batches of 100 and of 1.
    Mix,
    /// Tables that were never analyzed, or analyzed too early, compared with analyzed ones.
    Cold,
    /// A large database compared with a nearly empty one.
    Large,
    /// Events one by one, compared with bare round trips over a quorum queue.
    Single,
    /// Enquiries one by one, with the CPU time of each program.
    Enquiries,
    /// The same enquiries, with webhooks delivered to a receiver.
    Delivered,
    /// Records writes and reads, alone and during another tenant's burst.
    Records,
    /// A backlog drained by one lane and by two lanes.
    Contention,
    /// One event type with a different email each, as in earlier versions of this benchmark.
    Simple,
    /// The dispatcher alone: bursts of events that are already in the outbox.
    Webhooks,
    /// Response times of a quiet tenant while others burst, wait or hang up.
    Fairness,
    /// Signed batches while 4,096 idle or 4,096 slow connections are open.
    Idle,
    /// Resident sizes of the programs: at rest, with idle connections, with the body budget in use, afterwards.
    Memory,
    /// The cost of a refusal, and whether its response time reveals which keys exist.
    Refusals,
    /// The pages of the settings area, with many deliveries and clients.
    Pages,
    /// Several copies of each program under one load, and the cost of each event and delivery; writes docs/capacity.md.
    Scale,
    /// Resident sizes under a steady mixed load, for an hour unless `--minutes` says otherwise.
    Soak,
}

impl Section {
    /// Whether it runs only when it is named: `soak` takes an hour, `scale` writes a document, `pages` fills 10 GB.
    const fn is_run_on_request(self) -> bool {
        matches!(self, Self::Pages | Self::Scale | Self::Soak)
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

impl Options {
    /// The sections to measure, in their order.
    pub(crate) fn sections(&self) -> Vec<Section> {
        let is_wanted = |section: &&Section| {
            self.sections.contains(section) || self.sections.is_empty() && !section.is_run_on_request()
        };
        Section::value_variants().iter().filter(is_wanted).copied().collect()
    }

    /// Whether rows with this number of connections are measured.
    pub(crate) fn includes(&self, connections: usize) -> bool {
        self.connections.is_empty() || self.connections.contains(&connections)
    }

    /// Time limit of a section: far more than a slow machine needs.
    pub(crate) fn longest(&self, section: Section) -> Duration {
        let load = if section == Section::Soak {
            2.0 * 60.0 * self.minutes
        } else {
            100.0 * self.rounds as f64 * self.seconds
        };
        let rows =
            if section == Section::Pages { 3 * self.deliveries } else { self.ledger_rows + self.clients };
        let rows = rows as f64 / 5_000.0;
        Duration::from_secs(900) + Duration::from_secs_f64(load + rows)
    }

    /// Duration of one measured load.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|rounds| *rounds >= 1).ok_or_else(|| "must be a whole number from 1".to_owned())
}

fn positive(text: &str) -> Result<f64, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=600.0).contains(seconds));
    seconds.ok_or_else(|| "must be a number from 0.1 to 600".to_owned())
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (1.0..=10_080.0).contains(minutes));
    minutes.ok_or_else(|| "must be a number from 1 to 10080".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_scale_and_soak_only_when_they_are_named() {
        let sections = |arguments: &[&str]| {
            let named = ["connect-bench"].iter().chain(arguments);
            Options::try_parse_from(named).expect("a valid command line").sections()
        };
        let all = sections(&[]);
        assert!(all.contains(&Section::Mix));
        assert!(![Section::Pages, Section::Scale, Section::Soak].iter().any(|section| all.contains(section)));
        assert_eq!(sections(&["soak", "scale"]), [Section::Scale, Section::Soak]);
    }
}
