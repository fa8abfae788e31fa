//! Things break and heal by themselves (architecture: Invariants 1, 2, 4).

mod connections;
mod programs;
mod queue;
mod servers;

use std::time::{Duration, Instant};
use tests::event::batch;
use tests::{World, event};

/// Sends a valid batch that must be answered 503 with this code in well under a second.
async fn assert_refused_quickly(world: &World, code: &str) {
    let request = world.key.events(batch(&[event("contact.identified").email("refused@example.com")]));
    let begun = Instant::now();
    let answer = world.http().send(&request).await;
    let took = begun.elapsed();
    answer.assert_error(503, code);
    assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    assert!(took < Duration::from_secs(1), "503 took {took:?}");
}

/// Waits until all programs are ready again.
async fn until_ready(world: &World) {
    for program in world.ingests.iter().chain(&world.workers) {
        program.until_ready().await;
    }
}
