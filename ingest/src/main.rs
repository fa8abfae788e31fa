//! connect-ingest: the HTTP API for partners and integrators. `--help` lists its settings.

// The type of a connection's future nests those of all filters and services, deeper than the compiler's default limit.
#![recursion_limit = "256"]

use ingest::settings::Settings;
use std::process::ExitCode;
use std::thread::available_parallelism;
use tokio::runtime::Builder;

fn main() -> ExitCode {
    // A request stays on its thread, and those of one thread share round trips and messages, so few threads do more than many.
    // The servers need the other processors.
    let threads = available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
    let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    runtime.expect("threads can be started").block_on(common::program::run::<Settings>())
}
