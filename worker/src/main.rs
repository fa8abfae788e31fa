//! connect-worker: consumes the queues and applies their messages to Postgres.

use std::process::ExitCode;

// The lanes have their own threads; this one receives and sends for all of them.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    common::program::run::<worker::settings::Settings>().await
}
