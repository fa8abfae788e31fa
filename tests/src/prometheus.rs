//! A parser of `/metrics`, and a real Prometheus.

mod server;

pub use server::{CONSOLE_JOB, JOBS, Prometheus, Series};

use std::collections::BTreeMap;

/// The samples of one scrape.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<Sample>);

/// One line of a scrape.
#[derive(Clone, Debug)]
pub struct Sample {
    /// The metric's name; a histogram's ends with `_bucket`, `_sum` or `_count`.
    pub name: String,
    /// The labels with their values.
    pub labels: BTreeMap<String, String>,
    /// The value of the sample.
    pub value: f64,
}

impl Samples {
    /// Reads the text form.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self(lines.map(|line| Sample::parse(line).unwrap_or_else(|| panic!("no sample: {line}"))).collect())
    }

    /// The sum of all samples of that name that have these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.of(name).filter(|sample| sample.has(labels)).map(|sample| sample.value).sum()
    }

    /// All samples of a metric; a histogram's too, by its plain name.
    pub fn of(&self, name: &str) -> impl Iterator<Item = &Sample> {
        let is_part = |part: &str| matches!(part, "" | "_bucket" | "_sum" | "_count");
        self.0.iter().filter(move |sample| sample.name.strip_prefix(name).is_some_and(is_part))
    }

    /// All samples of the scrape.
    pub fn all(&self) -> &[Sample] {
        &self.0
    }
}

impl Sample {
    fn parse(line: &str) -> Option<Self> {
        let (metric, value) = line.rsplit_once(' ')?;
        let (name, labels) = match metric.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}')?),
            None => (metric, ""),
        };
        let labels = labels.split_terminator("\",").filter_map(|label| {
            let (name, value) = label.split_once("=\"")?;
            Some((name.to_owned(), value.trim_end_matches('"').to_owned()))
        });
        Some(Self { name: name.to_owned(), labels: labels.collect(), value: value.parse().ok()? })
    }

    fn has(&self, labels: &[(&str, &str)]) -> bool {
        labels.iter().all(|(name, value)| self.labels.get(*name).is_some_and(|found| found == value))
    }
}
