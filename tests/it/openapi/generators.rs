//! Clients that are generated from the description.

use super::{TempDirectory, project, python_tool, run};
use ingest::openapi;

/// Inbound and outbound event types.
const TYPES: &str = "18";

/// openapi-python-client leaves out what it cannot type, with a warning. openapi-typescript needs the same form, which
/// `ingest::openapi` checks: no registry of its language is used by the tests.
#[tokio::test]
async fn a_generated_client_has_a_class_for_each_event_type_and_its_payload() {
    let scratch = TempDirectory::new();
    let document = serde_json::to_vec(&openapi::document()).expect("JSON");
    let document = scratch.put("openapi.json", &document);
    let generated = scratch.path("generated");
    let directory = project("tests/generators");
    let mut generator = python_tool("openapi-python-client").await;
    generator.arg("generate").arg("--path").arg(&document).arg("--output-path").arg(&generated);
    generator.args(["--meta", "none", "--fail-on-warning", "--config"]).arg(directory.join("config.yaml"));
    let written = run(&mut generator, 2).await;
    assert!(written.succeeded, "{}\n{}", written.output, written.errors);
    assert!(!written.output.contains("Unable to"), "{}", written.output);
    let mut python = python_tool("python").await;
    python.arg(directory.join("check.py")).arg(scratch.path(".")).arg(&document);
    let checked = run(python.env("PYTHONDONTWRITEBYTECODE", "1"), 1).await;
    assert!(checked.succeeded, "{}\n{}", checked.output, checked.errors);
    assert_eq!(checked.output.trim(), TYPES, "all types");
}
