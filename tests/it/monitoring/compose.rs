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
async fn monitoring_is_a_compose_profile_whose_files_exist() {
    let compose = yaml("compose.yaml").await;
    for (name, service) in compose["services"].as_object().expect("services") {
        let expected: &[&str] =
            if matches!(name.as_str(), "prometheus" | "grafana") { &["monitoring"] } else { &[] };
        assert_eq!(texts(&service["profiles"]), expected, "{name}");
        for (source, _) in mounts(service) {
            let is_there = match source.strip_prefix("./") {
                Some(file) => repository_path(file).exists(),
                None => compose["volumes"].get(source).is_some(),
            };
            assert!(is_there, "{name} mounts {source}");
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
    let mounted = mounts(&compose["services"]["prometheus"]);
    let (_, directory) = mounted.iter().find(|(source, _)| *source == "./ops/prometheus").expect("the rules");
    let config = format!("--config.file={directory}/prometheus.yml");
    assert!(texts(&compose["services"]["prometheus"]["command"]).contains(&config.as_str()), "{config}");
}

#[tokio::test]
async fn grafana_is_provisioned_with_the_dashboard_and_prometheus() {
    let compose = yaml("compose.yaml").await;
    let grafana = &compose["services"]["grafana"];
    let mounted = mounts(grafana);
    let target_of = |file: &str| {
        let found = mounted.iter().find(|(source, _)| *source == file);
        found.unwrap_or_else(|| panic!("{file} isn't mounted")).1
    };
    assert_eq!(target_of("./ops/grafana/provisioning"), "/etc/grafana/provisioning");
    let dashboard = target_of("./ops/grafana/connect.json");
    assert_eq!(grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"], dashboard);
    let provider = yaml("ops/grafana/provisioning/dashboards/connect.yml").await;
    let directory = tests::text(&provider["providers"][0]["options"]["path"]);
    assert_eq!(dashboard, format!("{directory}/connect.json"));

    let source = yaml("ops/grafana/provisioning/datasources/prometheus.yml").await;
    let source = &source["datasources"][0];
    assert_eq!((&source["type"], &source["isDefault"]), (&"prometheus".into(), &true.into()));
    assert_eq!(source["url"], "http://prometheus:9090");
    let published = texts(&compose["services"]["prometheus"]["ports"]);
    assert!(published.iter().all(|port| port.starts_with("127.0.0.1:") && port.ends_with(":9090")));
}

#[tokio::test]
async fn compose_sets_only_known_settings_and_reads_more_from_a_file() {
    let (compose, page) = (yaml("compose.yaml").await, repository_text("docs/operators.md"));
    // Sets nothing, so that a file of the operator's own need not repeat it.
    let settings = repository_text("ops/images/settings.env");
    assert!(settings.lines().all(|line| line.starts_with('#')), "{settings}");
    for name in ["ingest", "worker", "dispatcher", "console", "migrate"] {
        let service = &compose["services"][name];
        assert_eq!(texts(&service["env_file"]), ["${CONNECT_SETTINGS:-ops/images/settings.env}"], "{name}");
        for setting in service["environment"].as_object().expect("settings").keys() {
            assert!(page.contains(&format!("| `{setting}` |")), "{name} sets {setting}");
        }
    }
}
