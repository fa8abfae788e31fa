//! connect-ingest: takes in what partners send. `--help` lists its settings.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    common::program::run(ingest::service::run).await
}
