//! The runbook's queries and commands are valid.

use super::{metrics, metrics_in, repository_text};
use tests::{CommandOutput, Prometheus};

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
