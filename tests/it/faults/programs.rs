//! Programs that are killed in a burst.

use crate::burst;
use tests::event::batch;
use tests::{World, event};

#[tokio::test]
async fn workers_killed_in_turn_leave_their_messages_to_each_other_or_to_the_next_one() {
    for workers in [1, 2] {
        let mut world = World::with().workers(workers).start().await;
        let (key, ingest) = (world.key.clone(), world.http().address());
        let burst = burst::send(&key, &[ingest], async |mut progress| {
            for part in [0.2, 0.4, 0.6, 0.8] {
                progress.until(part).await;
                world.workers.remove(0).kill();
                world.add_worker().await;
            }
        })
        .await;
        assert_eq!(burst.interrupted(), 0, "requests that waited for a killed one get their replies");
        burst.assert_applied_once(&world).await;
    }
}

#[tokio::test]
async fn an_ingest_killed_in_a_burst_loses_nothing_that_is_resent() {
    let mut world = World::with().ingests(2).start().await;
    let key = world.key.clone();
    let ingests = [0, 1].map(|i| world.ingests[i].http().address());
    let burst = burst::send(&key, &ingests, async |mut progress| {
        progress.until(0.3).await;
        world.ingests.remove(0).kill();
    })
    .await;
    assert!(burst.refused() > 0, "no request was interrupted");
    burst.assert_applied_once(&world).await;
}

#[tokio::test]
async fn a_frozen_worker_keeps_its_locks_for_ten_seconds_at_most() {
    let world = World::start().await;
    world.accept(event("contact.identified").email("ana@example.com").name("Ana")).await;
    let other = world.database.connect().await;
    // Twice as long as a transaction may be idle.
    let lock = "SET statement_timeout = '20s'; BEGIN; UPDATE clients SET updated_at = now()";
    other.batch_execute(lock).await.expect("no row is locked");
    let renamed = [event("contact.updated").email("ana@example.com").name("Anna")];
    let send = async {
        let response = world.http().send(&world.key.events(batch(&renamed))).await;
        assert_eq!(response.status, 200, "{response:?}");
    };
    let freeze = async {
        world.database.until_lock_wait().await;
        world.workers[0].signal("STOP");
        other.batch_execute("COMMIT").await.expect("a commit");
        // The frozen worker has the row now, until the server ends its transaction.
        let locked = other.batch_execute("UPDATE clients SET updated_at = now()").await;
        world.workers[0].signal("CONT");
        locked.expect("the row is free again");
    };
    futures_util::join!(send, freeze);
    world.until_applied(2).await;
}
