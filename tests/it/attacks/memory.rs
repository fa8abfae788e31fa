//! Bodies that callers stall share a memory budget, and their memory is released.

use futures_util::future::join_all;
use tests::raw::RawConnection;
use tests::{EVENTS, MAX_WAIT, World, eventually};

const MEBIBYTE: f64 = (1 << 20) as f64;
/// MiB that all bodies may hold.
const BUDGET: f64 = 64.0;
/// MiB of the budget that callers of several networks can hold together.
const HELD: f64 = 0.8 * BUDGET;
/// MiB for the read buffers of about 40 connections, up to 0.4 MiB each, and for what the allocator keeps. Without the budget the
/// bodies alone would take 160 MiB.
const BESIDE: f64 = 32.0;
/// Number of networks that the callers are spread over.
const NETWORKS: usize = 16;
/// Callers that keep sending after the budget is used up.
const MORE_CALLERS: usize = 20;

/// Resident memory of ingest, in MiB.
async fn resident(world: &World) -> f64 {
    world.ingests[0].metrics().await.sum("process_resident_memory_bytes", &[]) / MEBIBYTE
}

/// Sends all but the last byte of a body of 4 MiB, each `number` from the next network.
async fn hold_back(world: &World, number: usize) -> RawConnection {
    let network = u8::try_from(number % NETWORKS).expect("few networks");
    let mut connection = RawConnection::from([127, 0, 1 + network, 1], world.http().address()).await;
    let size = (4 << 20) - 1;
    let head =
        format!("POST {EVENTS} HTTP/1.1\r\nhost: connect\r\ntransfer-encoding: chunked\r\n\r\n{size:x}\r\n");
    connection.send([head.as_bytes(), &vec![b' '; size - 1]].concat()).await;
    connection
}

#[tokio::test]
async fn stalled_bodies_use_at_most_the_budget_and_release_it() {
    let world = World::with()
        .workers(0)
        .set("CONNECT_BODY_BUDGET", "64MiB")
        .set("CONNECT_BODY_TIMEOUT", "2m")
        .start()
        .await;
    let before = resident(&world).await;
    let mut held = Vec::new();
    eventually("the budget is held", MAX_WAIT * 2, async || {
        held.push(hold_back(&world, held.len()).await);
        let during = resident(&world).await;
        let refused = [("reason", "body_budget")];
        let refused = world.ingests[0].metrics().await.sum("connect_overloaded_total", &refused);
        if during >= before + HELD && refused > 0.0 {
            Ok(())
        } else {
            Err(format!("{during} MiB, {before} MiB before, {refused} refused"))
        }
    })
    .await;
    let more = (0..MORE_CALLERS).map(|number| hold_back(&world, held.len() + number));
    held.extend(join_all(more).await);
    let during = resident(&world).await;
    assert!(during < before + BUDGET + BESIDE, "{during} MiB, {before} MiB before");
    drop(held);
    eventually("the memory is given back", MAX_WAIT, async || match resident(&world).await {
        after if after < before + BESIDE => Ok(()),
        after => Err(format!("{after} MiB, {before} MiB before")),
    })
    .await;
}
