//! The description of the API against the running programs: it is complete, it is true, and its page works.

mod bodies;
mod cases;
mod page;
mod requests;
mod webhooks;

use serde_json::Value;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tests::{HttpResponse, World};
use tokio::process::Command;

/// The route of the description for programs.
const OPENAPI: &str = "/api/v1/crm/connect/openapi.json";
/// The route of the description for people.
const DOCS: &str = "/docs";

/// A response to a GET without credentials.
async fn get(world: &World, target: &str) -> HttpResponse {
    world.http().get(target).await.expect("a response")
}

async fn document(world: &World) -> Value {
    get(world, OPENAPI).await.assert_status(200).json()
}

/// All endpoints of a document: path, method in upper case, operation.
fn endpoints(document: &Value) -> Vec<(&str, String, &Value)> {
    let paths = document["paths"].as_object().expect("paths");
    let of = |(path, item)| {
        let operations: &Value = item;
        let operations = operations.as_object().expect("operations").iter();
        operations.map(move |(method, operation)| (path, method.to_uppercase(), operation))
    };
    paths.iter().map(|(path, item)| (path.as_str(), item)).flat_map(of).collect()
}

/// The result of running a tool.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    pub(crate) succeeded: bool,
    pub(crate) output: String,
    pub(crate) errors: String,
}

/// Runs a tool, which must end within `minutes`.
pub(crate) async fn run(command: &mut Command, minutes: u64) -> ToolOutput {
    let ended = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let ended = tokio::time::timeout(Duration::from_secs(60 * minutes), ended).await;
    let ended = ended.unwrap_or_else(|_| panic!("not within {minutes} minutes: {command:?}"));
    let ended = ended.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    ToolOutput {
        succeeded: ended.status.success(),
        output: String::from_utf8_lossy(&ended.stdout).into_owned(),
        errors: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}

/// A Python tool of the tests; installs it where it is missing.
pub(crate) async fn python_tool(name: &str) -> Command {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../ops/local/python.sh");
    let installed = run(&mut Command::new(script), 10).await;
    assert!(installed.succeeded, "{installed:?}");
    Command::new(PathBuf::from(installed.output.trim()).join(name))
}
