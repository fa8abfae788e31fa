//! `make bench`: what the running programs reach, beside floors taken in the same run.
//!
//! Each figure is the median of several rounds. In a round the floor is taken right after the load, so that a ratio
//! holds when the machine's speed drifts.
//!
//! `connect-bench [records | webhooks | BATCH [CONCURRENCY]]`: all of it, one part only, or some rows of the events.

mod burst;
mod cpu;
mod events;
mod figures;
mod floor;
mod reads;
mod records;
mod stages;
mod traffic;
mod webhook_floors;
mod webhooks;
mod writes;

use tests::World;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments == ["webhooks"] {
        return webhooks::run().await;
    }
    let only_records = arguments == ["records"];
    let number =
        |argument: &String| argument.parse().expect("`records`, `webhooks`, or a batch and a concurrency");
    let wanted: Vec<usize> = if only_records { Vec::new() } else { arguments.iter().map(number).collect() };
    let world = World::start().await;
    if !only_records {
        events::run(&world, &wanted).await;
    }
    if wanted.is_empty() {
        records::run(&world).await;
        if !only_records {
            webhooks::run().await;
        }
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
