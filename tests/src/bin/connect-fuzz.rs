//! Runs the fuzz targets with seeds of their own for an hour, or as long as it is told: `make fuzz ARGS="--minutes 5"`.
//!
//! Ends with code 1 at the first case that fails, after printing its target and seed; `--seed` begins with that one.

use clap::Parser;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use tests::fuzz::{HttpFuzz, Target};

/// Cases of each target between two looks at the clock.
const CASES: u64 = 2_000;
/// Streams to the HTTP entry among them.
const STREAMS: u64 = 200;

/// Gives the readers and the HTTP entry generated input, and prints the seed of the first case that fails.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// How long to go on.
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// The first seed; a random one when it is left out.
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

/// Runs cases for that long, at least one round; gives how many.
async fn run(first: u64, time: Duration) -> Result<u64, String> {
    let (began, http) = (Instant::now(), HttpFuzz::start().await);
    let mut cases = 0;
    loop {
        let seeds = first.wrapping_add(cases)..first.wrapping_add(cases).saturating_add(CASES);
        for seed in seeds.clone() {
            Target::ALL.into_iter().try_for_each(|target| target.run(seed))?;
        }
        http.run(seeds.start, STREAMS).await?;
        cases += CASES;
        if began.elapsed() >= time {
            return Ok(cases);
        }
    }
}
