//! Limits, and the responses when they are reached (architecture: Invariant 5).

use crate::attacks::exhaustion::body;
use serde_json::json;
use tests::raw::{RawConnection, head};
use tests::{World, batch, event};

#[tokio::test]
async fn accepts_a_batch_of_several_megabytes() {
    let world = World::shared().await;
    let text = "é🧳x".repeat(4_000);
    let events: Vec<_> = (0..100)
        .map(|i| event("trip.draft_updated").email(&format!("{i}@example.com")).payload(json!({"n": i, "text": text})))
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
