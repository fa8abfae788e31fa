//! Limits, and the responses when they are reached (architecture: Invariant 5).

use crate::attacks::exhaustion::body;
use futures_util::future::join_all;
use serde_json::json;
use tests::raw::{RawConnection, head};
use tests::{ALL_SCOPES, HttpClient, World, batch, event};

#[tokio::test]
async fn a_tenant_at_its_limit_leaves_room_for_another() {
    let mut world = World::with().workers(0).set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "3").start().await;
    let zeta = world.add_tenant("zeta").await;
    let (key, http) = (world.key.clone(), HttpClient::new(world.http().address()));
    let refused = key.events(body(&key));
    // Of three keys: requests of one key may share a message.
    let keys = [key.clone(), world.add_key(ALL_SCOPES).await, world.add_key(ALL_SCOPES).await];
    let ours = join_all(keys.iter().map(async |key| http.send(&key.events(body(key))).await));
    let theirs = async {
        world.until_depth("events", 3).await;
        let response = http.send(&refused).await;
        response.assert_error(503, "overloaded");
        assert!(!response.header("retry-after").is_empty(), "{response:?}");
        let request = zeta.events(body(&zeta));
        let waited = async {
            world.until_depth("events", 4).await;
            world.add_worker().await;
        };
        futures_util::join!(http.send(&request), waited).0
    };
    let (ours, theirs) = futures_util::join!(ours, theirs);
    assert_eq!(theirs.status, 200, "{theirs:?}");
    assert!(ours.iter().all(|response| response.status == 200), "{ours:?}");
    let counted = world.ingests[0].metrics().await;
    assert_eq!(counted.sum("connect_overloaded_total", &[("reason", "in_flight_per_tenant")]), 1.0);
    assert_eq!(counted.sum("connect_overloaded_total", &[]), 1.0);
    // It was refused before its signature was used up, and a place is free again.
    assert_eq!(http.send(&refused).await.status, 200);
}

#[tokio::test]
async fn rejects_requests_beyond_the_limit_as_overloaded_immediately() {
    let mut world = World::with().workers(0).set("CONNECT_MAX_IN_FLIGHT", "2").start().await;
    // Of two keys: requests of one key may share a message.
    let keys = [world.key.clone(), world.add_key(ALL_SCOPES).await];
    let http = HttpClient::new(world.http().address());
    let waiting = join_all(keys.iter().map(async |key| http.send(&key.events(body(key))).await));
    let rest = async {
        world.until_depth("events", 2).await;
        // Immediately: the others wait for a worker, which starts after this.
        http.send(&world.key.events(body(&world.key))).await.assert_error(503, "overloaded");
        world.add_worker().await;
    };
    let (responses, ()) = futures_util::join!(waiting, rest);
    assert!(responses.iter().all(|response| response.status == 200), "{responses:?}");
}

#[tokio::test]
async fn slow_senders_take_no_places_in_flight() {
    let world = World::with().set("CONNECT_MAX_IN_FLIGHT", "4").join().await;
    let mut slow = Vec::new();
    for _ in 0..20 {
        let request = world.key.events(body(&world.key));
        let mut connection = RawConnection::to(world.http().address()).await;
        connection.send([head(&request).as_slice(), b"content-length: 500\r\n\r\n{"].concat()).await;
        slow.push(connection);
    }
    for _ in 0..5 {
        assert_eq!(world.http().send(&world.key.events(body(&world.key))).await.status, 200);
    }
}

#[tokio::test]
async fn accepts_a_batch_of_several_megabytes() {
    let world = World::shared().await;
    let text = "é🧳x".repeat(4_000);
    let events: Vec<_> = (0..100)
        .map(|i| {
            event("trip.draft_updated")
                .email(&format!("{i}@example.com"))
                .payload(json!({"n": i, "text": text}))
        })
        .collect();
    let body = batch(&events);
    assert!(body.len() > 2_500_000, "{} bytes", body.len());
    let response = world.http().send(&world.key.events(body)).await;
    assert_eq!(response.json()["accepted"], 100);
    let results = response.json();
    let last = world.timeline(&results["results"][99]["clientId"]).await;
    assert_eq!(last[0]["payload"], json!({"n": 99, "text": text}));
}

#[tokio::test]
async fn responds_100_continue_to_a_caller_that_expects_it() {
    let world = World::shared().await;
    let request = world.key.events(body(&world.key));
    let mut connection = RawConnection::to(world.http().address()).await;
    let expect = format!("expect: 100-continue\r\ncontent-length: {}\r\n\r\n", request.body.len());
    connection.send([head(&request).as_slice(), expect.as_bytes()].concat()).await;
    connection.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    connection.send(&request.body).await;
    assert_eq!(connection.response().await.expect("a response").status, 200);
}

#[tokio::test]
async fn closes_an_incomplete_request_after_the_header_timeout_and_no_connection_that_is_idle_for_longer() {
    let world = World::with().set("CONNECT_HEADER_TIMEOUT", "300ms").join().await;
    let open = async || RawConnection::to(world.http().address()).await;
    let (mut idle, mut unused, mut slow) = (open().await, open().await, open().await);
    let (request, begun) = ("GET / HTTP/1.1\r\nhost: connect\r\n\r\n", "GET / HTTP/1.1\r\nhost: conn");
    for connection in [&mut idle, &mut slow] {
        connection.send(request).await;
        assert_eq!(connection.response().await.expect("a response").status, 404);
    }
    slow.send(begun).await;
    unused.until_closed().await;
    slow.until_closed().await;
    idle.send(request).await;
    assert_eq!(idle.response().await.expect("a response").status, 404);
}

#[tokio::test]
async fn a_caller_that_disconnects_gets_its_result_on_retry() {
    let world = World::shared().await;
    for i in 0..10 {
        let sent = event("enquiry.submitted").email(&format!("{i}@example.com"));
        let request = world.key.events(batch(std::slice::from_ref(&sent)));
        let mut connection = RawConnection::to(world.http().address()).await;
        let length = format!("content-length: {}\r\n\r\n", request.body.len());
        connection.send([head(&request).as_slice(), length.as_bytes(), &request.body].concat()).await;
        drop(connection);
        let retried = world.result(sent).await;
        assert!(["accepted", "duplicate"].contains(&tests::text(&retried["status"])), "{retried}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), 10);
}
