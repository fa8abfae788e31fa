//! connect-worker: consumes the queues and applies what they hold to Postgres.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    common::program::run(worker::service::run).await
}
