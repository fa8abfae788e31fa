//! `make bench`: measures the running programs under traffic like that of partners, and floors in the same run.
//!
//! Each figure is the median of several rounds. In a round the floor is measured right after the load, so that a ratio
//! stays valid when the machine's speed drifts. A step that takes longer than a minute ends the run.

mod bare_steps;
mod comparison;
mod document;
mod events;
mod fairness;
mod inserts;
mod measure;
mod memory;
mod options;
mod records;
mod refusals;
mod round_trips;
mod scale;
mod traffic;
mod usage;
mod webhooks;
mod worlds;

use clap::Parser;
use comparison::EXCEEDED;
use options::{Options, Section};
use std::sync::atomic::Ordering;

// One thread: the generator shares few processors with the programs it measures, and wakes no other threads.
#[tokio::main(flavor = "current_thread")]
async fn main() {
    let options = Options::parse();
    for section in options.sections() {
        let provenance = document::provenance(&options).await;
        let text = match section {
            Section::Batches => Box::pin(events::batches(&options)).await,
            Section::Single => Box::pin(events::single(&options)).await,
            Section::Records => Box::pin(records::run(&options)).await,
            Section::Webhooks => Box::pin(webhooks::run(&options)).await,
            Section::Fairness => Box::pin(fairness::run(&options)).await,
            Section::Refusals => Box::pin(refusals::run(&options)).await,
            Section::Memory => Box::pin(memory::run(&options)).await,
            Section::Scale => Box::pin(scale::run(&options)).await,
        };
        let text = format!("{provenance}\n\n{text}");
        println!("\n## {}\n{text}", section.name());
        if options.document {
            document::write(section, &text);
        }
    }
    if EXCEEDED.load(Ordering::Relaxed) {
        std::process::exit(1);
    }
}
