//! Monitoring: alerts, runbook, dashboard.

mod alerts;
mod compose;
mod dashboard;
mod rules;

use std::collections::BTreeSet;
use std::path::PathBuf;

pub(crate) fn repository_path(relative: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(relative)
}

/// The content of a file of the repository.
pub(crate) fn repository_text(relative: &str) -> String {
    std::fs::read_to_string(repository_path(relative)).unwrap_or_else(|error| panic!("{relative}: {error}"))
}

fn files(directory: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(repository_path(directory)).unwrap_or_else(|error| panic!("{directory}: {error}"));
    let paths = entries.map(|entry| entry.expect("an entry of a directory").path());
    let mut found: Vec<PathBuf> = paths.filter(|path| path.extension().is_some_and(|found| found == ending)).collect();
    found.sort();
    found
}

/// The metrics of Connect that an expression names, without the suffixes of histograms.
fn metrics_in(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':')));
    let named = words.filter(|word| word.starts_with("connect_"));
    let plain = |word: &str| {
        ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix)).unwrap_or(word).to_owned()
    };
    named.map(plain).collect()
}

/// The names of all metrics of Connect.
fn metrics() -> BTreeSet<String> {
    metrics_in(&repository_text("common/src/metrics.rs"))
}
