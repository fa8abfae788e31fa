//! A broker that rejects a bundle, hangs while publishing one, or closes the connection (D9).

use super::{
    assert_own_results, identified_each, results, send_during_a_publish, stallable, until_published, until_submitted,
};
use futures_util::future::join_all;
use std::time::{Duration, Instant};
use tests::{HttpClient, HttpRequest, HttpResponse, MAX_WAIT, World, eventually};

/// Resends the requests concurrently, each signed again at each attempt, until they are accepted.
async fn resend(world: &World, requests: &[HttpRequest]) -> Vec<HttpResponse> {
    let again = requests.iter().map(async |request| {
        eventually("the route accepts it", MAX_WAIT, async || {
            let response = world.http().send(&world.key.events(request.body.clone())).await;
            if response.status == 503 { Err(format!("{response:?}")) } else { Ok(response) }
        })
        .await
    });
    join_all(again).await
}

#[tokio::test]
async fn each_request_of_a_rejected_bundle_gets_503_overloaded() {
    let world = stallable().workers(0).start().await;
    // Publishing to a deleted queue fails like publishing to a full one, and immediately.
    world.queues.delete("events").await;
    let requests = identified_each(&world.key, 6);
    let (first, rest) = requests.split_at(1);
    for response in send_during_a_publish(&world, first, rest).await {
        response.assert_error(503, "overloaded");
        assert!(!response.header("retry-after").is_empty(), "{response:?}");
    }
    let metrics = world.ingests[0].metrics().await;
    // The first request's message, and the bundle of the five others.
    assert_eq!(metrics.sum("connect_publish_total", &[("outcome", "refused")]), 2.0);
    assert_eq!(metrics.sum("connect_overloaded_total", &[("reason", "queue")]), 6.0);
}

#[tokio::test]
async fn requests_that_wait_when_the_connection_breaks_are_not_ingested() {
    let world = stallable().start().await;
    let requests = identified_each(&world.key, 5);
    let http = HttpClient::new(world.http().address());
    let ingest = &world.ingests[0];
    world.proxies().broker.stall();
    let first = async { http.send(&requests[0]).await };
    let rest = async {
        until_published(ingest, 1).await;
        join_all(requests[1..].iter().map(|request| http.send(request))).await
    };
    let driving = async {
        until_submitted(ingest, requests.len()).await;
        world.proxies().broker.reset_connections_once();
    };
    let (first, rest, ()) = futures_util::join!(first, rest, driving);
    // The first request's message may have reached the queue.
    first.assert_error(503, "processing_timeout");
    for response in &rest {
        response.assert_error(503, "overloaded");
    }
    world.proxies().broker.restore();
    for response in &resend(&world, &requests).await[1..] {
        assert_eq!(results(response)[0]["status"], "accepted");
    }
    world.until_applied(5).await;
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 5);
}

#[tokio::test]
async fn each_request_times_out_by_itself_while_the_broker_hangs() {
    let world = stallable().set("CONNECT_PUBLISH_TIMEOUT", "2s").start().await;
    let requests = identified_each(&world.key, 5);
    let http = HttpClient::new(world.http().address());
    world.proxies().broker.stall();
    let first = async { http.send(&requests[0]).await };
    let rest = async {
        until_published(&world.ingests[0], 1).await;
        join_all(requests[1..].iter().map(|request| http.send(request))).await
    };
    let begun = Instant::now();
    let (first, rest) = futures_util::join!(first, rest);
    // Far less than `CONNECT_REPLY_TIMEOUT`.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    first.assert_error(503, "processing_timeout");
    for response in &rest {
        let code = response.json()["code"].clone();
        // Some had been handed to the broker when they timed out, some had not.
        response.assert_error(503, if code == "overloaded" { "overloaded" } else { "processing_timeout" });
    }
    world.proxies().broker.restore();
    for response in &resend(&world, &requests).await {
        assert!(["accepted", "duplicate"].contains(&tests::text(&results(response)[0]["status"])));
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 5);
    let more: Vec<HttpRequest> = (10..13).map(|i| super::identified(&world.key, &format!("{i}@example.com"))).collect();
    let responses = join_all(more.iter().map(|request| http.send(request))).await;
    assert_own_results(&more, &responses);
}
