//! Dependencies fail, and the programs recover without help (architecture: Invariants 1, 2, 4).

mod clocks;
mod cluster;
mod connections;
mod failover;
mod programs;
mod queue;
mod records;
mod servers;

use std::time::{Duration, Instant};
use tests::event::batch;
use tests::{World, WorldBuilder, event, text};

/// A world whose programs wait for the servers as long as by default; other tests wait longer.
fn with_default_timeouts() -> WorldBuilder {
    World::with().set("CONNECT_STORE_TIMEOUT", "750ms").set("CONNECT_PUBLISH_TIMEOUT", "800ms")
}

/// Half of the reply timeout of the tests: a busy machine takes several seconds for what needs none.
const REFUSED_WITHIN: Duration = Duration::from_secs(30);

/// Sends a batch while a dependency is unavailable. It must get 503 long before the reply timeout; returns the code.
async fn refused_quickly(world: &World) -> String {
    let request = world.key.events(batch(&[event("contact.identified").email("refused@example.com")]));
    let begun = Instant::now();
    let response = world.http().send(&request).await;
    let took = begun.elapsed();
    assert_eq!(response.status, 503, "{response:?}");
    assert!(!response.header("retry-after").is_empty(), "{response:?}");
    assert!(took < REFUSED_WITHIN, "503 took {took:?}");
    let code = text(&response.json()["code"]).to_owned();
    response.assert_error(503, &code);
    code
}
