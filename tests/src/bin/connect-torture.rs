//! Runs the system under faults and checks that nothing was lost or applied twice:
//! `make torture ARGS="--minutes 10 --seed 7"`.
//!
//! Prints progress, totals, times to recover, and what was violated. Exits with code 1 if something was.

use clap::Parser;
use futures_util::FutureExt as _;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tests::torture;

/// Kills, stops, cuts off and restarts programs and servers under a mixed load, and compares the result with what was confirmed.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Duration of the load and the faults, in minutes.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
    /// The seed of the plan of faults and of the load; random by default.
    #[arg(long)]
    seed: Option<u64>,
    /// Directory for the logs of the programs.
    #[arg(long, default_value = ".run/torture")]
    logs: PathBuf,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { minutes, seed, logs } = Arguments::parse();
    let seed = seed.unwrap_or_else(|| uuid::Uuid::now_v7().as_u64_pair().1 % 1_000_000);
    let Ok(length) = Duration::try_from_secs_f64(60.0 * minutes) else {
        eprintln!("--minutes must be a positive number");
        return ExitCode::from(2);
    };
    let logs = logs.join(seed.to_string());
    drop(std::fs::remove_dir_all(&logs));
    let running = AssertUnwindSafe(Box::pin(torture::run(seed, length, &logs)));
    let Ok(report) = running.catch_unwind().await else {
        eprintln!("the run did not end; logs are in {}; seed {seed}", logs.display());
        return ExitCode::FAILURE;
    };
    report.totals.iter().for_each(|line| println!("{line}"));
    if report.violations.is_empty() {
        println!("seed {seed}: {} faults, {} confirmed effects, no violation", report.faults, report.confirmed);
        return ExitCode::SUCCESS;
    }
    eprintln!("seed {seed}: {} violations; logs are in {}", report.violations.len(), logs.display());
    report.violations.iter().for_each(|violation| eprintln!("- {violation}"));
    ExitCode::FAILURE
}
