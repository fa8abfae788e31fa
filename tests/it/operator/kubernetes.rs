//! The manifests of `ops/kubernetes`: what the API's schemas accept, and what the policy of `tests/kubernetes` asks for.

use crate::openapi::{python_tool, run};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::Command;
use tokio::sync::OnceCell;

fn project(path: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).join(path)
}

/// Writes the PrometheusRules beside the other manifests, as the guide says.
async fn write_rules() {
    static WRITTEN: OnceCell<()> = OnceCell::const_new();
    let script = project("ops/kubernetes/prometheus-operator/rules.sh");
    let write = async || assert!(run(&mut Command::new(script), 1).await.succeeded);
    WRITTEN.get_or_init(write).await;
}

/// Checks a directory or file of manifests, and gives the result.
async fn check(manifests: &Path) -> Value {
    let mut python = python_tool("python").await;
    let checked = run(python.arg(project("tests/kubernetes/check.py")).arg(manifests), 2).await;
    let all: Value =
        serde_json::from_str(&checked.output).unwrap_or_else(|error| panic!("{error}: {checked:?}"));
    all[0].clone()
}

#[tokio::test]
async fn manifests_fit_the_schemas_and_the_policy() {
    write_rules().await;
    let checked = check(&project("ops/kubernetes")).await;
    assert_eq!(checked["faults"], json!([]));
    for kind in ["Deployment", "NetworkPolicy", "PrometheusRule", "ScaledObject"] {
        assert!(checked["kinds"][kind].as_u64() > Some(0), "{checked}");
    }
}

/// Where a tool of Kubernetes is installed, also what it makes of the example.
#[tokio::test]
async fn the_example_renders_to_manifests_that_fit() {
    write_rules().await;
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("kustomize").arg(project("ops/kubernetes/example"));
    let Ok(rendered) = kubectl.stdin(Stdio::null()).output().await else {
        println!("skipped: kubectl is not installed");
        return;
    };
    assert!(rendered.status.success(), "{}", String::from_utf8_lossy(&rendered.stderr));
    let file = std::env::temp_dir().join(format!("connect-kubernetes-{}.yaml", uuid::Uuid::now_v7()));
    std::fs::write(&file, rendered.stdout).expect("a file is written");
    let checked = check(&file).await;
    std::fs::remove_file(&file).expect("the file");
    assert_eq!(checked["faults"], json!([]));
}
