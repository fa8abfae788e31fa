//! `make bench`: what the running programs reach, beside floors taken in the same run.
//!
//! Each figure is the median of several rounds. In a round the floor is taken right after the load, so that a ratio
//! holds when the machine's speed drifts.

//!
//! `connect-bench [webhooks | BATCH [CONCURRENCY]]`: all of it, webhooks only, or some rows of the events.

mod cpu;
mod events;
mod figures;
mod floor;
mod records;
mod stages;
mod traffic;
mod webhook_floors;
mod webhooks;

use tests::World;

#[tokio::main]
async fn main() {
    if std::env::args().nth(1).as_deref() == Some("webhooks") {
        return webhooks::run().await;
    }
    let wanted: Vec<usize> =
        std::env::args().skip(1).map(|argument| argument.parse().expect("a number")).collect();
    let world = World::start().await;
    events::run(&world, &wanted).await;
    if wanted.is_empty() {
        records::run(&world).await;
        webhooks::run().await;
    }
    // Figures of programs in trouble say nothing.
    for program in world.ingests.iter().chain(&world.workers) {
        let warned: Vec<String> =
            program.logs().lines().filter(|line| !line.contains("INFO")).map(str::to_owned).collect();
        if let Some(first) = warned.first() {
            println!("{} warnings, the first: {first}", warned.len());
        }
    }
}
