//! Programs that are killed in a burst.

use crate::burst;
use tests::World;

#[tokio::test]
async fn a_worker_that_is_killed_in_a_burst_and_started_again_loses_and_repeats_nothing() {
    let mut world = World::start().await;
    let (key, ingest) = (world.key.clone(), world.http().address());
    let burst = burst::send(&key, &[ingest], async |mut progress| {
        for part in [0.25, 0.5, 0.75] {
            progress.until(part).await;
            world.workers[0].kill();
            world.workers.clear();
            world.add_worker().await;
        }
    })
    .await;
    assert_eq!(burst.refused(), 0, "who waited for the killed one is answered by the new one");
    burst.settle(&world).await;
}

#[tokio::test]
async fn workers_that_are_killed_in_turn_leave_their_messages_to_each_other() {
    let mut world = World::with().workers(2).start().await;
    let (key, ingest) = (world.key.clone(), world.http().address());
    let burst = burst::send(&key, &[ingest], async |mut progress| {
        for part in [0.2, 0.4, 0.6, 0.8] {
            progress.until(part).await;
            world.workers.remove(0).kill();
            world.add_worker().await;
        }
    })
    .await;
    assert_eq!(burst.refused(), 0);
    burst.settle(&world).await;
}

#[tokio::test]
async fn an_ingest_that_is_killed_in_a_burst_leaves_nothing_that_cannot_be_sent_again() {
    let mut world = World::with().ingests(2).start().await;
    let key = world.key.clone();
    let ingests = [0, 1].map(|i| world.ingests[i].http().address());
    let burst = burst::send(&key, &ingests, async |mut progress| {
        progress.until(0.3).await;
        world.ingests.remove(0).kill();
    })
    .await;
    assert!(burst.refused() > 0, "nobody noticed");
    burst.settle(&world).await;
}
