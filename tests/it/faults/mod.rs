//! Things break and heal by themselves (architecture: Invariants 1, 2, 4).

mod connections;
mod programs;
mod queue;
mod records;
mod servers;

use std::time::{Duration, Instant};
use tests::event::batch;
use tests::{World, WorldBuilder, event, text};

/// A world whose programs wait for the servers as long as they do by default.
fn impatient() -> WorldBuilder {
    World::with().set("CONNECT_STORE_TIMEOUT", "750ms").set("CONNECT_PUBLISH_TIMEOUT", "800ms")
}

/// Sends a batch for which something is away. It must be answered 503 long before
/// the time for a reply is over; gives the code.
async fn refused_quickly(world: &World) -> String {
    let request = world.key.events(batch(&[event("contact.identified").email("refused@example.com")]));
    let begun = Instant::now();
    let answer = world.http().send(&request).await;
    let took = begun.elapsed();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    assert!(took < Duration::from_secs(5), "503 took {took:?}");
    let code = text(&answer.json()["code"]).to_owned();
    answer.assert_error(503, &code);
    code
}
