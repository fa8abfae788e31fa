//! The alerting rules and the runbook: rules are valid, tested firing and not firing, and explained; all queries use
//! existing metrics.

use super::{files, metrics, metrics_in, repository_path, repository_text};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use tests::{CommandOutput, Prometheus};

/// Runs promtool and gives what it printed.
pub(super) fn promtool(arguments: &[&str], files: &[PathBuf]) -> String {
    let ran = Command::new("promtool").args(arguments).args(files).output();
    let ran = ran.unwrap_or_else(|error| panic!("promtool: {error}; see ops/local/services.sh install checks"));
    let printed = [ran.stdout, ran.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(ran.status.success(), "promtool {arguments:?}: {printed}");
    printed
}

#[test]
fn promtool_accepts_the_configuration_and_the_rules() {
    promtool(&["check", "config"], &[repository_path("ops/prometheus/prometheus.yml")]);
    promtool(&["check", "rules", "--lint=all", "--lint-fatal"], &files("ops/prometheus/rules", "yml"));
}

#[test]
fn the_rules_pass_their_tests() {
    promtool(&["test", "rules"], &files("ops/prometheus/tests", "yml"));
}

/// For each alert in the rules' tests: whether a test expects it to fire, and whether a test expects it not to.
fn tested() -> BTreeMap<String, (bool, bool)> {
    let mut tested: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for file in files("ops/prometheus/tests", "yml") {
        let cases = std::fs::read_to_string(&file).expect("tests of rules");
        let mut alert = String::new();
        for line in cases.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix("alertname: ") {
                name.clone_into(&mut alert);
            } else if let Some(expected) = line.strip_prefix("exp_alerts:") {
                let (fires, rests) = tested.entry(alert.clone()).or_default();
                *(if expected.trim() == "[]" { rests } else { fires }) = true;
            }
        }
    }
    tested
}

#[tokio::test]
async fn every_alert_is_tested_firing_and_not_firing_and_links_its_runbook_section() {
    let (rules, tested) = (Prometheus::start().await.alert_rules().await, tested());
    let runbook = repository_text("ops/RUNBOOK.md");
    let list = runbook.split("\n## ").find(|section| section.starts_with("Alerts\n")).expect("the list of alerts");
    let names: BTreeSet<&str> = rules.iter().map(|rule| tests::text(&rule["name"])).collect();
    for rule in &rules {
        let name = tests::text(&rule["name"]);
        assert_eq!(tested.get(name), Some(&(true, true)), "{name} fires and doesn't fire in a test");
        let annotation = |name: &str| rule["annotations"][name].as_str().unwrap_or_default();
        assert!(runbook.contains(&format!("\n### {name}\n")), "{name} has a section");
        assert!(list.contains(&format!("[{name}](#{})", name.to_lowercase())), "{name} is listed at the top");
        let link = format!(r#"{{{{ or $externalLabels.runbook_url "ops/RUNBOOK.md" }}}}#{}"#, name.to_lowercase());
        assert_eq!(annotation("runbook"), link);
        assert!(["critical", "warning"].map(Value::from).contains(&rule["labels"]["severity"]), "{rule}");
    }
    let orphans: Vec<&String> = tested.keys().filter(|name| !names.contains(name.as_str())).collect();
    assert_eq!(orphans, Vec::<&String>::new(), "tests of no alert");
}

#[test]
fn rules_and_their_tests_use_only_existing_metrics() {
    let known = metrics();
    for file in files("ops/prometheus/rules", "yml").iter().chain(&files("ops/prometheus/tests", "yml")) {
        let named = metrics_in(&std::fs::read_to_string(file).expect("a file"));
        assert!(named.is_subset(&known), "{}: {:?}", file.display(), named.difference(&known));
        assert!(!named.is_empty(), "{}", file.display());
    }
}

#[tokio::test]
async fn every_query_of_the_runbook_is_valid_and_uses_existing_metrics() {
    let (runbook, prometheus) = (repository_text("ops/RUNBOOK.md"), Prometheus::start().await);
    for query in runbook.split("```promql\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        prometheus.query(query.trim()).await;
        assert!(metrics_in(query).is_subset(&metrics()), "{query}");
    }
}

/// The commands of `connectctl` that a text names, in blocks of shell and within sentences.
fn commands(text: &str) -> Vec<Vec<&str>> {
    let mut commands = Vec::new();
    for (at, part) in text.split('`').enumerate() {
        // Text outside of backticks names no command.
        let lines = part.lines().filter(|_| at % 2 == 1 || part.starts_with("sh\n"));
        let lines = lines.filter_map(|line| line.split_once("connectctl ").map(|(_, command)| command));
        commands.extend(lines.map(|command| {
            let words = command.split_whitespace();
            words.take_while(|word| !word.starts_with('#')).collect::<Vec<_>>()
        }));
    }
    commands.retain(|command| !command.contains(&"..."));
    commands
}

#[tokio::test]
async fn every_command_of_the_runbook_is_valid() {
    let runbook = repository_text("ops/RUNBOOK.md");
    for command in commands(&runbook) {
        // Without settings a valid command exits with 1 before it does anything; an invalid one exits with 2.
        let ran = CommandOutput::of("connectctl", &command, &[]).await;
        assert_eq!(ran.code, Some(1), "connectctl {command:?}: {}", ran.errors);
    }
}
