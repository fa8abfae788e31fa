//! connect-ingest: the HTTP API for partners and integrators. `--help` lists its settings.

// The type of a connection's future nests those of all filters and services, deeper than the compiler's default limit.
#![recursion_limit = "256"]

use ingest::settings::Settings;
use std::process::ExitCode;
use std::thread::available_parallelism;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    let mut runtime = Builder::new_multi_thread();
    // Requests of one thread wait for no other one to wake up: on two processors one thread does more than two (docs/bounds.md).
    if std::env::var_os("TOKIO_WORKER_THREADS").is_none() {
        runtime.worker_threads(available_parallelism().map_or(1, |processors| processors.get().div_ceil(2)));
    }
    runtime.enable_all().build().expect("threads can be started").block_on(common::program::run::<Settings>())
}
