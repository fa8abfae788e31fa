//! connect-worker: consumes the queues and applies their messages to Postgres.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    common::program::run::<worker::settings::Settings>().await
}
