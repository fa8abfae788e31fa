//! The manifests of `ops/kubernetes`: what the API's schemas accept, and what the policy of `tests/kubernetes` asks for.

use crate::monitoring::repository_path;
use crate::openapi::{python_tool, run};
use serde_json::{Value, json};
use std::path::Path;
use tokio::process::Command;
use tokio::sync::OnceCell;

/// Writes the PrometheusRules beside the other manifests, as the guide says.
async fn write_rules() {
    static WRITTEN: OnceCell<()> = OnceCell::const_new();
    let script = repository_path("ops/kubernetes/prometheus-operator/rules.sh");
    let write = async || assert!(run(&mut Command::new(script), 1).await.succeeded);
    WRITTEN.get_or_init(write).await;
}

/// Checks a directory or file of manifests, and gives the result.
async fn check(manifests: &Path) -> Value {
    let mut python = python_tool("python").await;
    let checked = run(python.arg(repository_path("tests/kubernetes/check.py")).arg(manifests), 2).await;
    let all: Value = serde_json::from_str(&checked.output).unwrap_or_else(|error| panic!("{error}: {checked:?}"));
    all[0].clone()
}

#[tokio::test]
async fn manifests_fit_the_schemas_and_the_policy() {
    write_rules().await;
    let checked = check(&repository_path("ops/kubernetes")).await;
    assert_eq!(checked["faults"], json!([]));
    for kind in ["Deployment", "NetworkPolicy", "PrometheusRule", "ScaledObject"] {
        assert!(checked["kinds"][kind].as_u64() > Some(0), "{checked}");
    }
}
