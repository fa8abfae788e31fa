//! The runbook's sections, queries, links, log messages and commands are valid.

use super::{metrics, metrics_in, repository_path, repository_text};
use std::collections::BTreeMap;
use std::path::Path;
use tests::{CommandOutput, Prometheus};

fn runbook() -> String {
    repository_text("ops/RUNBOOK.md")
}

/// The sections of alerts: name and text.
fn sections(runbook: &str) -> BTreeMap<&str, &str> {
    let sections = runbook.split("\n### ").skip(1);
    sections.filter_map(|section| section.split_once('\n')).collect()
}

/// The blocks of code in a language.
fn blocks<'r>(runbook: &'r str, language: &str) -> Vec<&'r str> {
    let fence = format!("```{language}\n");
    runbook.split(&fence).skip(1).filter_map(|rest| rest.split("```").next()).collect()
}

#[tokio::test]
async fn every_alert_has_a_section_with_meaning_diagnosis_and_action() {
    let (runbook, rules) = (runbook(), Prometheus::start().await.alert_rules().await);
    let sections = sections(&runbook);
    for rule in &rules {
        let name = tests::text(&rule["name"]);
        let section = sections.get(name).unwrap_or_else(|| panic!("no section {name}"));
        for part in ["**Means.** ", "**Look at.**", "**Do.** ", "```promql"] {
            assert!(section.contains(part), "{name} lacks {part}");
        }
        let (_, what_to_do) = section.split_once("**Do.** ").expect("what to do");
        assert!(what_to_do.contains("`connectctl "), "{name} has nothing to do with connectctl");
    }
    let alerts: Vec<&str> = rules.iter().map(|rule| tests::text(&rule["name"])).collect();
    let orphans: Vec<&&str> = sections.keys().filter(|name| !alerts.contains(name)).collect();
    assert_eq!(orphans, Vec::<&&str>::new(), "sections of no alert");
}

#[tokio::test]
async fn every_query_of_the_runbook_is_valid_and_uses_existing_metrics() {
    let (runbook, prometheus) = (runbook(), Prometheus::start().await);
    let queries = blocks(&runbook, "promql");
    assert!(queries.len() > 10);
    for query in queries {
        prometheus.query(query.trim()).await;
        assert!(metrics_in(query).is_subset(&metrics()), "{query}");
    }
}

#[test]
fn every_link_of_the_runbook_resolves() {
    let runbook = runbook();
    let anchors: Vec<String> = runbook
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')))
        .map(|heading| heading.to_lowercase().replace(' ', "-"))
        .collect();
    let links: Vec<&str> = runbook.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 10);
    for link in links {
        match link.strip_prefix('#') {
            Some(anchor) => assert!(anchors.iter().any(|known| known == anchor), "#{anchor}"),
            None => assert!(repository_path("ops").join(link).exists(), "{link}"),
        }
    }
}

#[test]
fn every_log_message_quoted_in_the_runbook_exists() {
    let sources = ["admin/src", "common/src", "ingest/src", "worker/src", "dispatcher/src"]
        .map(|crate_| read_all(&repository_path(crate_)))
        .concat();
    let runbook = runbook();
    let quoted: Vec<&str> =
        runbook.split("`\"message\":\"").skip(1).filter_map(|rest| rest.split("\"`").next()).collect();
    assert!(quoted.len() > 10);
    for message in quoted {
        assert!(sources.contains(&format!("\"{message}\"")), "nobody logs {message:?}");
    }
}

fn read_all(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory).expect("a directory of sources");
    let texts = entries.map(|entry| entry.expect("an entry").path()).map(|path| {
        if path.is_dir() { read_all(&path) } else { std::fs::read_to_string(&path).expect("a source") }
    });
    texts.collect()
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
    let runbook = runbook();
    let commands = commands(&runbook);
    assert!(commands.len() > 15, "{commands:?}");
    let options = commands.iter().flatten().filter(|word| word.starts_with("--")).count();
    assert!(options > 8, "{commands:?}");
    for command in commands {
        // Without settings a valid command exits with 1 before it does anything; an invalid one exits with 2.
        let ran = CommandOutput::of("connectctl", &command, &[]).await;
        assert_eq!(ran.code, Some(1), "connectctl {command:?}: {}", ran.errors);
        // `doctor` reports it as a finding.
        assert!(
            ran.errors.contains("setting ") || ran.output.contains("setting "),
            "connectctl {command:?}: {ran:?}"
        );
    }
}
