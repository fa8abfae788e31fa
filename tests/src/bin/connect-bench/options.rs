//! The command line.

use clap::{Parser, ValueEnum};
use std::time::Duration;

/// Measures a release build under load, each figure beside its floor, taken alternately in the same run.
///
/// Every wait has a limit: what does not end in time ends the run with a line that names it.
#[derive(Clone, Debug, Parser)]
#[command(name = "connect-bench")]
pub(crate) struct Options {
    /// Sections to measure; all of them but `scale` and `soak` when none is named.
    #[arg(value_enum)]
    pub(crate) sections: Vec<Section>,
    /// Rounds of each measurement: the median is printed, or all their requests are taken together.
    #[arg(long, default_value_t = 3, value_parser = at_least_one)]
    pub(crate) rounds: usize,
    /// Length of one stretch of load, in seconds.
    #[arg(long, default_value_t = 2.5, value_parser = positive)]
    pub(crate) seconds: f64,
    /// Numbers of connections in `identified` and `single`; all that they measure when none is named.
    #[arg(long, value_delimiter = ',')]
    pub(crate) connections: Vec<usize>,
    /// Rows of the event ledger in `large`.
    #[arg(long, default_value_t = 10_000_000)]
    pub(crate) ledger_rows: u64,
    /// Clients in `large`.
    #[arg(long, default_value_t = 1_000_000)]
    pub(crate) clients: u64,
    /// Length of `soak`, in minutes.
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
    /// Tables never analyzed, or analyzed too early, against analyzed ones.
    Cold,
    /// A large database against a nearly empty one.
    Large,
    /// Events one by one, beside bare round trips over a quorum queue.
    Single,
    /// Enquiries one by one, with the CPU time of each program.
    Enquiries,
    /// The same delivered to a webhook receiver.
    Delivered,
    /// Records writes and reads, alone and beside another agency's burst.
    Records,
    /// A backlog drained by one lane and by two.
    Contention,
    /// One event type with an email each, as earlier versions of this benchmark sent it.
    Simple,
    /// The dispatcher alone: bursts of webhooks that are in the outbox already.
    Webhooks,
    /// A quiet agency's response times while others burst, wait or hang up.
    Fairness,
    /// A signed batch beside 4,096 idle, and 4,096 slow connections.
    Idle,
    /// Resident sizes of the programs: at rest, with idle connections, with the body budget in use, afterwards.
    Memory,
    /// What a refusal costs, and whether its time tells which keys exist.
    Refusals,
    /// More copies of each program under one load, and what each event and delivery costs; writes docs/capacity.md.
    Scale,
    /// Resident sizes under a steady mixed load, for an hour unless `--minutes` says otherwise.
    Soak,
}

impl Section {
    /// Whether it runs only when it is named: one takes an hour, the other writes a document.
    const fn is_run_on_request(self) -> bool {
        matches!(self, Self::Scale | Self::Soak)
    }

    /// As it is written on the command line.
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

    /// Whether rows with this number of connections are to be measured.
    pub(crate) fn includes(&self, connections: usize) -> bool {
        self.connections.is_empty() || self.connections.contains(&connections)
    }

    /// Longest that a section may take: far more than on a slow machine.
    pub(crate) fn longest(&self, section: Section) -> Duration {
        let load = if section == Section::Soak {
            2.0 * 60.0 * self.minutes
        } else {
            100.0 * self.rounds as f64 * self.seconds
        };
        let rows = (self.ledger_rows + self.clients) as f64 / 5_000.0;
        Duration::from_secs(900) + Duration::from_secs_f64(load + rows)
    }

    /// Length of one stretch of load.
    pub(crate) fn stretch(&self) -> Duration {
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
        assert!(!all.contains(&Section::Scale) && !all.contains(&Section::Soak));
        assert_eq!(sections(&["soak", "scale"]), [Section::Scale, Section::Soak]);
    }
}
