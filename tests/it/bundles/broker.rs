//! A broker that refuses a bundle, hangs with one, or goes away (D9).

use super::{
    assert_own_results, identified_each, results, send_during_a_publish, stallable, until_applied,
    until_published, until_submitted,
};
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::{Answer, Http, Outgoing, PATIENCE, World, eventually};

/// Sends the same events again, each by itself, until they are applied.
async fn resend(world: &World, requests: &[Outgoing]) -> Vec<Answer> {
    let again = requests.iter().map(|request| world.key.events(request.body.clone()));
    let again = again.map(async |request| {
        eventually("the route takes it", PATIENCE, async || {
            let answer = world.http().send(&world.key.events(request.body.clone())).await;
            if answer.status == 503 { Err(format!("{answer:?}")) } else { Ok(answer) }
        })
        .await
    });
    join_all(again).await
}

#[tokio::test]
async fn a_bundle_that_the_queue_refuses_is_refused_to_each_of_its_requests() {
    let world = stallable().workers(0).start().await;
    // A queue that is gone refuses as one that is full does, and at once.
    world.queues.delete("events").await;
    let requests = identified_each(&world.key, 6);
    let (first, rest) = requests.split_at(1);
    for answer in send_during_a_publish(&world, first, rest).await {
        answer.assert_error(503, "overloaded");
        assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
    }
    let metrics = world.ingests[0].metrics().await;
    assert_eq!(metrics.sum("connect_publish_total", &[("outcome", "refused")]), 2.0);
    assert_eq!(metrics.sum("connect_refused_total", &[("reason", "queue")]), 6.0);
}

#[tokio::test]
async fn requests_that_wait_when_the_connection_breaks_were_not_ingested() {
    let world = stallable().start().await;
    let requests = identified_each(&world.key, 5);
    let http = Http::new(world.http().address());
    let ingest = &world.ingests[0];
    world.proxies().broker.stall();
    let first = async { http.send(&requests[0]).await };
    let rest = async {
        until_published(ingest, 1).await;
        join_all(requests[1..].iter().map(|request| http.send(request))).await
    };
    let driving = async {
        until_submitted(ingest, requests.len()).await;
        world.proxies().broker.cut_once();
    };
    let (first, rest, ()) = futures_util::join!(first, rest, driving);
    // It may have reached the queue.
    first.assert_error(503, "processing_timeout");
    for answer in &rest {
        answer.assert_error(503, "overloaded");
    }
    world.proxies().broker.restore();
    for answer in &resend(&world, &requests).await[1..] {
        assert_eq!(results(answer)[0]["status"], "accepted");
    }
    until_applied(&world, 5).await;
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 5);
}

#[tokio::test]
async fn a_broker_that_hangs_is_answered_within_each_requests_own_time() {
    let world = stallable().set("CONNECT_PUBLISH_TIMEOUT", "2s").start().await;
    let requests = identified_each(&world.key, 5);
    let http = Http::new(world.http().address());
    world.proxies().broker.stall();
    let first = async { http.send(&requests[0]).await };
    let rest = async {
        until_published(&world.ingests[0], 1).await;
        join_all(requests[1..].iter().map(|request| http.send(request))).await
    };
    let begun = Instant::now();
    let (first, rest) = futures_util::join!(first, rest);
    // Far less than the time for a reply.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    first.assert_error(503, "processing_timeout");
    for answer in &rest {
        let code = answer.json()["code"].clone();
        // Some had been handed over when their time was up, some hadn't.
        answer.assert_error(503, if code == "overloaded" { "overloaded" } else { "processing_timeout" });
    }
    world.proxies().broker.restore();
    for answer in &resend(&world, &requests).await {
        assert!(["accepted", "duplicate"].contains(&tests::text(&results(answer)[0]["status"])));
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 5);
    let more: Vec<Outgoing> =
        (10..13).map(|i| super::identified(&world.key, &format!("{i}@example.com"))).collect();
    let answers = join_all(more.iter().map(|request| http.send(request))).await;
    assert_own_results(&more, &answers);
}
