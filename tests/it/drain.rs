//! SIGTERM: what is under way is finished, nothing is lost (the operator's contract).

use crate::burst;
use futures_util::future::join_all;
use tests::event::batch;
use tests::{Http, PATIENCE, World, event, eventually};

#[tokio::test]
async fn an_ingest_that_is_asked_to_end_answers_what_is_under_way_first() {
    let mut world = World::with().workers(0).start().await;
    let ingest = Http::new(world.http().address());
    let key = world.key.clone();
    let requests = (0..10).map(async |i| {
        let body = batch(&[event("contact.identified").email(&format!("{i}@example.com"))]);
        ingest.send(&key.events(body)).await
    });
    let drain = async {
        eventually("all are under way", PATIENCE, async || {
            match world.ingests[0].metrics().await.sum("connect_bundle_requests_sum", &[]) {
                10.0 => Ok(()),
                other => Err(format!("{other} requests")),
            }
        })
        .await;
        world.ingests[0].signal("TERM");
        let refuses = Http::new(world.http().address());
        eventually("it takes no more", PATIENCE, async || match refuses.get("/").await {
            Err(_) => Ok(()),
            Ok(answer) => Err(format!("{answer:?}")),
        })
        .await;
        world.add_worker().await;
        world.ingests[0].until_ended(PATIENCE).await
    };
    let (answers, status) = futures_util::join!(join_all(requests), drain);
    assert_eq!(status.code(), Some(0));
    for answer in answers {
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 10);
}

#[tokio::test]
async fn a_worker_that_is_asked_to_end_in_a_burst_finishes_its_unit_and_hands_the_rest_on() {
    let mut world = World::start().await;
    let (key, ingest) = (world.key.clone(), world.http().address());
    let burst = burst::send(&key, &[ingest], async |mut progress| {
        progress.until(0.3).await;
        assert_eq!(world.workers[0].terminate().await.code(), Some(0));
        world.workers.clear();
        world.add_worker().await;
    })
    .await;
    assert_eq!(burst.refused(), 0, "nobody notices");
    burst.settle(&world).await;
}

#[tokio::test]
async fn programs_that_have_nothing_to_do_end_at_once_also_with_idle_connections() {
    let mut world = World::start().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
    let begun = std::time::Instant::now();
    assert_eq!(world.workers[0].terminate().await.code(), Some(0));
    assert_eq!(world.ingests[0].terminate().await.code(), Some(0));
    assert!(begun.elapsed() < std::time::Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_program_that_drains_says_that_it_is_not_ready() {
    let mut world = World::with().workers(0).start().await;
    let ingest = Http::new(world.http().address());
    let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
    let drain = async {
        eventually("it is under way", PATIENCE, async || match world.queues.depth("events").await {
            1 => Ok(()),
            other => Err(format!("{other} messages")),
        })
        .await;
        world.ingests[0].signal("TERM");
        world.ingests[0].until_unready().await;
        world.add_worker().await;
        world.ingests[0].until_ended(PATIENCE).await
    };
    let (answer, status) = futures_util::join!(ingest.send(&request), drain);
    assert_eq!((answer.status, status.code()), (200, Some(0)));
}
