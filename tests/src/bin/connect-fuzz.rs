//! Runs the fuzz targets with new seeds for an hour, or a given time: `make fuzz ARGS="--minutes 5"`.
//!
//! Prints target and seed of the first case that fails and exits with code 1; `--seed` repeats that case.

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tests::fuzz::{FuzzTarget, HttpFuzz};

/// Cases of each target between two checks of the time.
const CASES: u64 = 2_000;
/// Streams to the HTTP server in the same time.
const STREAMS: u64 = 200;

/// Sends generated input to the parsers and the HTTP server, and prints the seed of the first case that fails.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Duration of the run, in minutes.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// The first seed; random by default.
    #[arg(long)]
    seed: Option<u64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { minutes, seed } = Arguments::parse();
    let random = || uuid::Uuid::now_v7().as_u64_pair().1;
    let first = seed.unwrap_or_else(random);
    println!("first seed {first}, for {minutes} min");
    match run(first, Duration::from_secs(60 * minutes)).await {
        Ok(cases) => {
            println!("{cases} cases, none failed");
            ExitCode::SUCCESS
        }
        Err(what) => {
            eprintln!("{what}");
            ExitCode::FAILURE
        }
    }
}

/// Runs cases for `time`, at least one round; returns their number.
async fn run(first: u64, time: Duration) -> Result<u64, String> {
    let (began, http) = (Instant::now(), HttpFuzz::start().await);
    let mut cases = 0;
    loop {
        let seeds = first.wrapping_add(cases)..first.wrapping_add(cases).saturating_add(CASES);
        for seed in seeds.clone() {
            FuzzTarget::ALL.into_iter().try_for_each(|target| target.run(seed))?;
        }
        http.run(seeds.start, STREAMS).await?;
        cases += CASES;
        if began.elapsed() >= time {
            return Ok(cases);
        }
    }
}
