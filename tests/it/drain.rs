//! SIGTERM: a program finishes what is under way and loses nothing (docs/operators.md).

use crate::burst;
use futures_util::future::join_all;
use tests::{HttpClient, MAX_WAIT, World, batch, event, eventually};

#[tokio::test]
async fn an_ingest_on_sigterm_is_not_ready_and_completes_requests_under_way() {
    let mut world = World::with().workers(0).start().await;
    let ingest = HttpClient::new(world.http().address());
    let key = world.key.clone();
    let requests = (0..10).map(async |i| {
        let body = batch(&[event("contact.identified").email(&format!("{i}@example.com"))]);
        ingest.send(&key.events(body)).await
    });
    let drain = async {
        world.ingests[0].until_sum("connect_bundle_requests_sum", &[], 10.0).await;
        world.ingests[0].signal("TERM");
        world.ingests[0].until_unready().await;
        let refuses = HttpClient::new(world.http().address());
        eventually("it accepts no more connections", MAX_WAIT, async || match refuses.get("/").await {
            Err(_) => Ok(()),
            Ok(response) => Err(format!("{response:?}")),
        })
        .await;
        world.add_worker().await;
        world.ingests[0].until_ended(MAX_WAIT).await
    };
    let (responses, status) = futures_util::join!(join_all(requests), drain);
    assert_eq!(status.code(), Some(0));
    for response in responses {
        assert_eq!(response.status, 200, "{response:?}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 10);
}

#[tokio::test]
async fn a_worker_on_sigterm_finishes_its_unit_and_requeues_the_rest() {
    let mut world = World::start().await;
    let (key, ingest) = (world.key.clone(), world.http().address());
    let burst = burst::send(&key, &[ingest], async |mut progress| {
        progress.until(0.3).await;
        assert_eq!(world.workers[0].terminate().await.code(), Some(0));
        world.workers.clear();
        world.add_worker().await;
    })
    .await;
    assert_eq!(burst.refused(), 0, "no partner notices");
    burst.assert_applied_once(&world).await;
}

#[tokio::test]
async fn idle_programs_exit_promptly_on_sigterm_even_with_open_connections() {
    let mut world = World::start().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
    let begun = std::time::Instant::now();
    assert_eq!(world.workers[0].terminate().await.code(), Some(0));
    assert_eq!(world.ingests[0].terminate().await.code(), Some(0));
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(world.queues.depth("events").await, 0, "what was handled is acknowledged");
}
