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

/// Checks directories or files of manifests, and gives the result of each.
async fn check(manifests: &[&Path]) -> Vec<Value> {
    let mut python = python_tool("python").await;
    let checked = run(python.arg(project("tests/kubernetes/check.py")).args(manifests), 2).await;
    serde_json::from_str(&checked.output).unwrap_or_else(|error| panic!("{error}: {checked:?}"))
}

/// Whether all manifests were read and none was refused.
async fn assert_complete(manifests: &Path) {
    let checked = check(&[manifests]).await;
    assert_eq!(checked[0]["faults"], json!([]));
    for (kind, count) in [("Deployment", 4), ("NetworkPolicy", 8), ("PrometheusRule", 6), ("ScaledObject", 2)]
    {
        assert_eq!(checked[0]["kinds"][kind], count, "{checked:?}");
    }
}

#[tokio::test]
async fn manifests_fit_the_schemas_and_the_policy() {
    write_rules().await;
    assert_complete(&project("ops/kubernetes")).await;
}

/// The master key can be rotated: the second key is a key of the same Secret, which may be missing.
#[test]
fn whatever_has_the_master_key_can_have_the_previous_one() {
    let read =
        |path: &str| std::fs::read_to_string(project(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    for program in ["console", "dispatcher", "ingest", "migrate", "worker"] {
        let manifest = read(&format!("ops/kubernetes/base/{program}.yaml"));
        for reference in ["CONNECT_MASTER_KEY }", "CONNECT_MASTER_KEY_PREVIOUS, optional: true }"] {
            let reference = format!("secretKeyRef: {{ name: connect-master-key, key: {reference} }}");
            assert!(manifest.contains(&reference), "{program}: {reference}");
        }
    }
    let previous = "CONNECT_MASTER_KEY_PREVIOUS: ${CONNECT_MASTER_KEY_PREVIOUS:-}";
    assert!(read("compose.yaml").contains(previous));
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
    let directory = Copy::new("");
    let file = directory.0.join("rendered.yaml");
    std::fs::write(&file, rendered.stdout).expect("a file is written");
    assert_complete(&file).await;
}

/// A copy of the manifests, removed when it is dropped.
struct Copy(PathBuf);

impl Copy {
    /// An empty `from` copies nothing.
    fn new(from: &str) -> Self {
        let path = std::env::temp_dir().join(format!("connect-kubernetes-{}", uuid::Uuid::now_v7()));
        std::fs::create_dir(&path).expect("a directory");
        if !from.is_empty() {
            copy(&project(from), &path);
        }
        Self(path)
    }

    /// Replaces a text of a file, which must be there.
    fn replace(&self, file: &str, text: &str, by: &str) {
        let path = self.0.join(file);
        let content = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(content.contains(text), "{file} has no {text}");
        std::fs::write(&path, content.replacen(text, by, 1)).expect("a file is written");
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            std::fs::create_dir(&target).expect("a directory");
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

/// Changes to the manifests, each with what the check says about it: file, text, replacement, fault.
const FAULTS: &[(&str, &str, &str, &str)] = &[
    ("base/ingest.yaml", "periodSeconds: 1", "periodSecond: 1", "periodSecond"),
    ("base/worker.yaml", "replicas: 2", "replicas: two", "replicas"),
    ("base/worker.yaml", "runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
    ("base/worker.yaml", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "writable root"),
    ("base/worker.yaml", "allowPrivilegeEscalation: false", "privileged: false", "may gain privileges"),
    ("base/worker.yaml", "drop: [ALL]", "drop: [KILL]", "keeps capabilities"),
    ("base/worker.yaml", "image: connect:0.1.0", "image: connect:latest", "has no version"),
    (
        "base/migrate.yaml",
        "limits: { cpu: \"1\", memory: 256Mi }",
        "limits: { cpu: \"1\" }",
        "no limits of memory",
    ),
    ("base/dispatcher.yaml", "path: /readyz", "path: /livez", "readinessProbe does not ask /readyz"),
    (
        "base/ingest.yaml",
        "GracePeriodSeconds: 40",
        "GracePeriodSeconds: 30",
        "is killed before it has drained",
    ),
    ("base/settings.yaml", "RUST_LOG: info", "CONNECT_MASTER_KEY: abc", "belongs into a Secret"),
    ("base/settings.yaml", "RUST_LOG: info", "RUST_LOGS: info", "setting RUST_LOGS is not in"),
    ("base/ingest.yaml", "topologyKey: kubernetes.io/hostname", "topologyKey: rack", "not spread over nodes"),
    ("base/disruption.yaml", "name: connect-worker }", "name: connect-workers }", "one PodDisruptionBudget"),
    (
        "base/network.yaml",
        "podSelector: {}",
        "podSelector: { matchLabels: { a: b } }",
        "no NetworkPolicy denies",
    ),
    ("base/network-dispatcher.yaml", "              - 100.64.0.0/10\n", "", "100.64.0.1"),
    ("base/network-dispatcher.yaml", "- 172.16.0.0/12", "- 172.0.0.0/8", "172.32.0.0"),
    (
        "base/console.yaml",
        "secretKeyRef: { name: connect-console, key: AMQP_URL }",
        "fieldRef: { fieldPath: status.podIP }",
        "AMQP_URL does not come from a Secret",
    ),
    (
        "base/disruption.yaml",
        "name: connect-console }",
        "name: connect-consoles }",
        "one PodDisruptionBudget",
    ),
    ("base/kustomization.yaml", "  - scaling.yaml\n", "", "no kustomization names it"),
    (
        "keda/scaled-objects.yaml",
        "connect_outbox_oldest_seconds",
        "connect_outbox_age",
        "has the metric connect_outbox_age",
    ),
    ("keda/scaled-objects.yaml", "threshold: \"15\"", "threshold: 15", "threshold must be str"),
    ("keda/kustomization.yaml", "scaled-objects.yaml", "objects.yaml", "objects.yaml does not exist"),
    ("prometheus-operator/rules.yaml", "> 30", "> 31", "differ from ops/prometheus/rules"),
    (
        "prometheus-operator/service-monitor.yaml",
        "jobLabel: app.kubernetes.io/name",
        "jobLabel: name",
        "its jobs are",
    ),
];

#[tokio::test]
async fn each_fault_is_found() {
    write_rules().await;
    let copies: Vec<Copy> = FAULTS
        .iter()
        .map(|(file, text, by, _)| {
            let copy = Copy::new("ops/kubernetes");
            copy.replace(file, text, by);
            copy
        })
        .collect();
    let paths: Vec<&Path> = copies.iter().map(|copy| copy.0.as_path()).collect();
    let checked = check(&paths).await;
    assert_eq!(checked.len(), FAULTS.len());
    for ((file, _, by, fault), result) in FAULTS.iter().zip(checked) {
        let found = result["faults"].to_string();
        assert!(found.contains(fault), "{by} in {file}: {found}");
    }
}
