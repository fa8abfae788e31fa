//! `make bench`: measures the running programs under traffic like that of partners, and floors in the same run.
//!
//! Each figure is the median of several rounds. In a round the floor is measured right after the load, so that a ratio
//! stays valid when the machine's speed drifts. A floor is the least that the same work costs on the same servers: bare
//! inserts of the events' rows, or bare round trips over a quorum queue.
//!
//! Every wait has a time limit: a step that takes longer than a minute ends the run with a line that names it, and so does
//! a section that takes far longer than its load.
//!
//! `connect-bench [SECTION...] [--rounds N] [--seconds N]`; `--help` lists the sections.

mod background_load;
mod caller;
mod commits;
mod comparison;
mod cpu;
mod event_kinds;
mod events;
mod figures;
mod header;
mod inserts;
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
mod time_limit;
mod traffic;

use clap::Parser;
use options::Options;
use std::time::Instant;
use time_limit::with_timeout;

// One thread: the generator shares few processors with the programs it measures, and wakes no other threads.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse();
    let started = Instant::now();
    header::print(&options).await;
    for section in options.sections() {
        println!();
        let begun = Instant::now();
        let what = format!("section {}", section.name());
        with_timeout(options.longest(section), &what, sections::run(section, &options)).await;
        let refused = events::take_refused();
        if refused > 0 {
            println!("{refused} batches were refused with 503 and resent after Retry-After");
        }
        eprintln!("({section:?} took {:.0} s)", begun.elapsed().as_secs_f64());
    }
    println!("\nmeasured in {:.0} s", started.elapsed().as_secs_f64());
}
