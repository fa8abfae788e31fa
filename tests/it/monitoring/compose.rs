//! `compose.yaml` matches the configuration of Prometheus and Grafana. No container is started.

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

/// The mounts of a service: source and target.
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
