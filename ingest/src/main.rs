//! connect-ingest: takes in what partners send. `--help` lists its settings.

// The future of a connection has the types of all filters and services in it, deeper than the compiler's default allows.
#![recursion_limit = "256"]

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    common::program::run(ingest::service::run).await
}
