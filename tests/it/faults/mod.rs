//! Dependencies fail, and the programs recover without help (architecture: Invariants 1, 2, 4).

mod clocks;
mod cluster;
mod failover;
mod queue;
mod records;
mod servers;

pub(crate) use clocks::shifted;

use std::time::{Duration, Instant};
use tests::{HttpResponse, World, WorldBuilder, batch, event, text};

/// A world whose programs wait for the servers as long as by default; other tests wait longer.
fn with_default_timeouts() -> WorldBuilder {
    World::with().set("CONNECT_STORE_TIMEOUT", "750ms").set("CONNECT_PUBLISH_TIMEOUT", "800ms")
}

/// Sends one request after the other until the queue has refused three. Returns those that may be in it, and the refused ones; each
/// with its response.
async fn fill_queue<T>(send: impl AsyncFn(usize) -> (T, HttpResponse)) -> [Vec<(T, HttpResponse)>; 2] {
    let (mut kept, mut refused) = (Vec::new(), Vec::new());
    // The broker counts with a delay: a few more than its limit may get in.
    for number in 0..100 {
        let (sent, response) = send(number).await;
        match text(&response.json()["code"]) {
            "processing_timeout" => kept.push((sent, response)),
            "overloaded" => refused.push((sent, response)),
            other => panic!("{other}"),
        }
        if refused.len() == 3 {
            break;
        }
    }
    assert!(kept.len() >= 5 && refused.len() == 3, "{} kept, {} refused", kept.len(), refused.len());
    [kept, refused]
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
