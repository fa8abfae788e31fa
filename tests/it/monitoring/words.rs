//! The runbook explains exactly the label values that the programs use.

use super::repository_text;
use common::broker::CallError;
use dispatcher::send::Outcome;
use ingest::auth::AuthFailure;
use ingest::overload::OverloadReason;
use std::collections::BTreeSet;

/// The label values that a section of the runbook explains: in each list item, the code before the first colon.
fn explained(section: &str) -> BTreeSet<String> {
    let runbook = repository_text("ops/RUNBOOK.md");
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
fn the_runbook_explains_each_outcome_of_a_webhook_attempt() {
    let failures = Outcome::ALL.into_iter().filter(|outcome| !outcome.is_delivered());
    assert_eq!(explained("ConnectWebhooksFailing"), set(failures.map(Outcome::as_str)));
}

#[test]
fn the_runbook_explains_each_reason_of_an_authentication_failure() {
    assert_eq!(
        explained("ConnectAuthFailuresSurge"),
        set(AuthFailure::ALL.iter().map(|failure| failure.as_str()))
    );
}

#[test]
fn the_runbook_explains_each_cause_of_a_503() {
    let mut words = set(OverloadReason::ALL.iter().map(|reason| reason.as_str()));
    words.extend(set([CallError::NoReply.outcome(), "connect_outage"]));
    assert_eq!(explained("ConnectErrorBudgetBurnsFast"), words);
}
