//! `make bench`: what the running programs reach on traffic like that of partners, beside floors taken in the same run.
//!
//! Each figure is the median of several rounds. In a round the floor is taken right after the load, so that a ratio
//! holds when the machine's speed drifts. A floor is the least that the same work costs on the same servers: bare
//! inserts of the events' rows, or bare round trips over a quorum queue.
//!
//! Every wait is bounded: a step that takes longer than a minute ends the run with a line that names it, and so does a
//! section that takes far longer than its load.
//!
//! `connect-bench [SECTION...] [--rounds N] [--seconds N]`; `--help` lists the sections.

mod background_load;
mod bounded;
mod caller;
mod commits;
mod comparison;
mod cpu;
mod events;
mod figures;
mod header;
mod inserts;
mod kinds;
mod markdown;
mod open_loop;
mod options;
mod people;
mod prepare;
mod process;
mod random;
mod rank_test;
mod request;
mod round_trips;
mod sections;
mod stages;
mod traffic;

use bounded::within;
use clap::Parser;
use options::Options;
use std::time::Instant;

// One thread: the generator shares few processors with what it measures, and wakes nobody but itself.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse();
    let started = Instant::now();
    header::print(&options).await;
    for section in options.sections() {
        println!();
        let begun = Instant::now();
        let what = format!("section {}", section.name());
        within(options.longest(section), &what, sections::run(section, &options)).await;
        eprintln!("({section:?} took {:.0} s)", begun.elapsed().as_secs_f64());
    }
    println!("\nmeasured in {:.0} s", started.elapsed().as_secs_f64());
}
