//! `compose.yaml` matches the configuration of Prometheus and Grafana, and the queries by which KEDA scales worker and
//! dispatcher (`ops/kubernetes/keda`) give their values. No container is started.

use super::rules::promtool;
use super::{repository_path, repository_text};
use crate::openapi::{python_tool, run};
use serde_json::Value;
use std::collections::BTreeSet;
use tests::{CONSOLE_JOB, JOBS};

/// A file of YAML as JSON.
async fn yaml(relative: &str) -> Value {
    let mut python = python_tool("python").await;
    python.args(["-c", "import json, sys, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)"]);
    let read = run(python.arg(repository_path(relative)), 1).await;
    assert!(read.succeeded, "{relative}: {}", read.errors);
    serde_json::from_str(&read.output).expect("JSON")
}

fn texts(array: &Value) -> Vec<&str> {
    array.as_array().into_iter().flatten().map(tests::text).collect()
}

fn mounts(service: &Value) -> Vec<(&str, &str)> {
    let volumes = texts(&service["volumes"]).into_iter();
    volumes.filter_map(|volume| volume.trim_end_matches(":ro").split_once(':')).collect()
}

#[tokio::test]
async fn compose_mounts_files_that_exist_and_sets_only_known_settings() {
    let (compose, page) = (yaml("compose.yaml").await, repository_text("docs/settings.md"));
    for (name, service) in compose["services"].as_object().expect("services") {
        for (source, _) in mounts(service) {
            let is_there = match source.strip_prefix("./") {
                Some(file) => repository_path(file).exists(),
                None => compose["volumes"].get(source).is_some(),
            };
            assert!(is_there, "{name} mounts {source}");
        }
    }
    for name in ["ingest", "worker", "dispatcher", "console", "migrate"] {
        for setting in compose["services"][name]["environment"].as_object().expect("settings").keys() {
            assert!(page.contains(&format!("| `{setting}` |")), "{name} sets {setting}");
        }
    }
}

#[tokio::test]
async fn prometheus_scrapes_every_program_at_its_compose_address() {
    let (compose, prometheus) = (yaml("compose.yaml").await, yaml("ops/prometheus/prometheus.yml").await);
    let mut jobs = BTreeSet::new();
    for job in prometheus["scrape_configs"].as_array().expect("jobs") {
        jobs.insert(tests::text(&job["job_name"]));
        let found = &job["dns_sd_configs"][0];
        let service = &compose["services"][tests::text(&found["names"][0])];
        assert_eq!(service["command"][0], job["job_name"]);
        let address = tests::text(&service["environment"]["CONNECT_METRICS_ADDR"]);
        assert_eq!(address, format!("0.0.0.0:{}", found["port"]));
    }
    assert_eq!(jobs, JOBS.into_iter().chain([CONSOLE_JOB]).collect());
}

/// Tests of the queries, with a placeholder for each.
const TESTS: &str = include_str!("scaling.yml");

/// The query of a ScaledObject.
fn query(manifest: &str, name: &str) -> String {
    let objects = manifest.split("\n---\n");
    let object = objects.filter(|object| object.contains(&format!("\n  name: {name}\n"))).last();
    let object = object.unwrap_or_else(|| panic!("no ScaledObject {name}"));
    let mut lines = object.lines().skip_while(|line| !line.trim_start().starts_with("query:"));
    let first = lines.next().unwrap_or_else(|| panic!("{name} has no query"));
    let indent = first.len() - first.trim_start().len();
    let block: Vec<&str> = lines.take_while(|line| line.len() - line.trim_start().len() > indent).collect();
    match first.trim_start().strip_prefix("query: ") {
        Some("|-") => block.join("\n"),
        Some(query) => query.to_owned(),
        None => panic!("{name}: {first}"),
    }
}

#[test]
fn the_queries_give_the_age_of_waiting_messages_also_while_none_is_handled() {
    let manifest = repository_text("ops/kubernetes/keda/scaled-objects.yaml");
    let tests = ["connect-worker", "connect-dispatcher"].iter().fold(TESTS.to_owned(), |tests, name| {
        let placeholder = format!("QUERY_OF_{name}");
        assert!(tests.contains(&placeholder), "{placeholder}");
        let quoted = serde_json::to_string(&query(&manifest, name)).expect("JSON");
        tests.replace(&placeholder, &quoted)
    });
    let file = std::env::temp_dir().join(format!("connect-scaling-{}.yml", uuid::Uuid::now_v7()));
    std::fs::write(&file, tests).expect("a file");
    let printed = std::panic::catch_unwind(|| promtool(&["test", "rules"], std::slice::from_ref(&file)));
    std::fs::remove_file(&file).expect("the file");
    if let Err(failed) = printed {
        std::panic::resume_unwind(failed);
    }
}
