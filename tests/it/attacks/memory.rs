//! Bodies that callers hold back take no more memory than they are allowed together, and give it back.

use futures_util::future::join_all;
use tests::raw::RawConnection;
use tests::{EVENTS, PATIENCE, World, eventually};

const MEBIBYTE: f64 = (1 << 20) as f64;
/// What all bodies may hold.
const BUDGET: f64 = 64.0;
/// Read buffers of the connections, the allocator's and what it keeps for later.
const BESIDE: f64 = 48.0;
/// As many bodies as would take twice and a half of it.
const CALLERS: usize = 40;

/// Mebibytes of memory that ingest has.
async fn resident(world: &World) -> f64 {
    world.ingests[0].metrics().await.sum("process_resident_memory_bytes", &[]) / MEBIBYTE
}

/// A request with all but the last byte of a body of 4 MiB.
async fn hold_back(world: &World) -> RawConnection {
    let mut connection = RawConnection::to(world.http().address()).await;
    let size = (4 << 20) - 1;
    let head =
        format!("POST {EVENTS} HTTP/1.1\r\nhost: connect\r\ntransfer-encoding: chunked\r\n\r\n{size:x}\r\n");
    connection.send([head.as_bytes(), &vec![b' '; size - 1]].concat()).await;
    connection
}

#[tokio::test]
async fn bodies_that_are_held_back_take_no_more_than_the_budget_and_give_it_back() {
    let world = World::with()
        .workers(0)
        .set("CONNECT_BODY_BUDGET", "64MiB")
        .set("CONNECT_BODY_TIMEOUT", "1m")
        .start()
        .await;
    let before = resident(&world).await;
    let held = join_all((0..CALLERS).map(|_| hold_back(&world))).await;
    let during = resident(&world).await;
    assert!(during < before + BUDGET + BESIDE, "{during} MiB, {before} MiB before");
    let metrics = world.ingests[0].metrics().await;
    assert!(metrics.sum("connect_refused_total", &[("reason", "body_budget")]) > 0.0, "the budget is spent");
    drop(held);
    eventually("the memory is given back", PATIENCE, async || match resident(&world).await {
        after if after < before + BESIDE => Ok(()),
        after => Err(format!("{after} MiB, {before} MiB before")),
    })
    .await;
}
