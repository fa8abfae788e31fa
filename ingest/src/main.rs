//! connect-ingest: the HTTP API for partners and integrators. `--help` lists its settings.

// The type of a connection's future nests those of all filters and services, deeper than the compiler's default limit.
#![recursion_limit = "256"]

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    common::program::run::<ingest::settings::Settings>().await
}
