//! The words that the runbook explains are those that the programs use.

use super::text;
use common::broker::CallError;
use dispatcher::send::Outcome;
use ingest::auth::Failure;
use ingest::bound::Bound;
use std::collections::BTreeSet;

/// The words that a section of the runbook explains: of each item of its lists, those in code before the first colon.
fn explained(section: &str) -> BTreeSet<String> {
    let runbook = text("ops/RUNBOOK.md");
    let rest = runbook.split_once(&format!("### {section}\n")).expect("the section").1;
    let section = rest.split("\n### ").next().unwrap_or(rest);
    let items = section.lines().filter_map(|line| line.strip_prefix("- ")?.split_once(": "));
    let words = items.flat_map(|(words, _)| words.split('`').skip(1).step_by(2).map(str::to_owned));
    words.collect()
}

fn set<'a>(words: impl IntoIterator<Item = &'a str>) -> BTreeSet<String> {
    words.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_runbook_explains_each_outcome_of_an_attempt_at_a_webhook() {
    let failures = Outcome::ALL.into_iter().filter(|outcome| !outcome.is_delivered());
    assert_eq!(explained("ConnectWebhooksFailing"), set(failures.map(Outcome::as_str)));
}

#[test]
fn the_runbook_explains_each_reason_of_refused_credentials() {
    assert_eq!(explained("ConnectAuthFailuresSurge"), set(Failure::ALL.map(Failure::as_str)));
}

#[test]
fn the_runbook_tells_the_503s_apart() {
    let mut words = set(Bound::ALL.map(Bound::as_str));
    words.extend(set([CallError::NoAnswer.outcome(), "connect_outage"]));
    assert_eq!(explained("ConnectErrorBudgetBurnsFast"), words);
}
