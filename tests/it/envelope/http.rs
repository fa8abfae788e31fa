//! The request around the body: its length, its speed, its method and path.

use super::{ana, assert_untouched};
use serde_json::Value;
use tests::raw::{self, RawConnection, RawResponse, head};
use tests::{EVENTS, HttpRequest, World, batch};

/// The code of an error body.
fn code(response: &RawResponse) -> String {
    let body: Value =
        serde_json::from_str(&response.body).unwrap_or_else(|error| panic!("no JSON ({error}): {response:?}"));
    assert_eq!(body["statusCode"], response.status, "{response:?}");
    body["code"].as_str().expect("a code").to_owned()
}

/// Sends a head and `rest`, and returns the response.
async fn exchange(world: &World, request: &HttpRequest, rest: &[u8]) -> RawResponse {
    raw::exchange(world.http().address(), [head(request).as_slice(), rest].concat()).await
}

#[tokio::test]
async fn accepts_a_body_of_exactly_the_limit_and_rejects_a_longer_one_with_or_without_content_length() {
    let world = World::with().set("CONNECT_MAX_BODY", "64KiB").join().await;
    let large = world.key.events(vec![b' '; 64 * 1024 + 1]);
    let message = world.http().send(&large).await.assert_error(413, "payload_too_large");
    assert_eq!(message, "The request body is larger than 65536 bytes");

    // Refused by its announced length, without waiting for the body.
    let response = exchange(&world, &large, b"content-length: 10000000000\r\n\r\n").await;
    assert_eq!((response.status, code(&response).as_str()), (413, "payload_too_large"));

    let chunk = [b"8000\r\n".as_slice(), &[b' '; 0x8000], b"\r\n"].concat();
    let chunks = [b"transfer-encoding: chunked\r\n\r\n".as_slice(), &chunk.repeat(3)].concat();
    let response = exchange(&world, &large, &chunks).await;
    assert_eq!((response.status, code(&response).as_str()), (413, "payload_too_large"));
    assert_untouched(&world).await;

    let mut body = batch(&[ana()]);
    body.resize(64 * 1024, b' ');
    assert_eq!(world.http().send(&world.key.events(body)).await.status, 200);
}

#[tokio::test]
async fn accepts_a_chunked_body() {
    let world = World::shared().await;
    let body = batch(&[ana()]);
    let request = world.key.events(body.clone());
    let mut chunked = b"transfer-encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(7) {
        chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    let response = exchange(&world, &request, &chunked).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(response.body.contains("\"accepted\":1,"), "{response:?}");
}

#[tokio::test]
async fn rejects_a_broken_chunk() {
    let world = World::shared().await;
    let request = world.key.events(batch(&[ana()]));
    for broken in [
        "zz\r\nabc\r\n",
        "5\r\nabcdefgh\r\n",
        "fffffffffffffffffff\r\n",
        "-1\r\n",
        // Extensions and trailers of 16 KiB: no more of them is read.
        format!("5;{}", "x".repeat(1 << 14)).as_str(),
        format!("0\r\nx:{}", "y".repeat((1 << 14) - 2)).as_str(),
    ] {
        let response =
            exchange(&world, &request, format!("transfer-encoding: chunked\r\n\r\n{broken}").as_bytes()).await;
        assert_eq!((response.status, code(&response).as_str()), (400, "invalid_request"), "{broken:?}");
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn times_out_a_body_that_arrives_too_slowly() {
    let world = World::with().set("CONNECT_BODY_TIMEOUT", "300ms").join().await;
    let request = world.key.events(batch(&[ana()]));
    for rest in ["content-length: 500\r\n\r\n{\"events\":", "transfer-encoding: chunked\r\n\r\n5\r\n{\"eve\r\n"] {
        let response = exchange(&world, &request, rest.as_bytes()).await;
        assert_eq!((response.status, code(&response).as_str()), (408, "request_timeout"), "{rest:?}");
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn a_caller_that_disconnects_within_its_body_leaves_nothing() {
    let world = World::shared().await;
    let request = world.key.events(batch(&[ana()]));
    for _ in 0..5 {
        let mut connection = RawConnection::to(world.http().address()).await;
        let half = &request.body[..request.body.len() / 2];
        let rest = [format!("content-length: {}\r\n\r\n", request.body.len()).as_bytes(), half].concat();
        connection.send([head(&request).as_slice(), &rest].concat()).await;
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn rejects_head_without_a_body() {
    let world = World::shared().await;
    let head = world.http().send(&HttpRequest::new("HEAD", EVENTS, "")).await;
    assert_eq!((head.status, head.body.len()), (405, 0));
}

#[tokio::test]
async fn an_unknown_route_is_not_found() {
    let world = World::shared().await;
    for target in [
        "/", "/metrics", "/api/v1/crm/connect", "/api/v1/crm/connect/event", "/api/v2/crm/connect/events",
        "/api/v1/crm/connect/events/1", "/api/v1/crm/connect/EVENTS", "/%2e%2e/events",
        "/api/v1/crm/connect/events%00", "/api/v1/crm/connect/clients/x/y", "/api/v1/crm/connect/leads/x/trip/y",
        "/api/v1/crm/connect/leads/x/trips",
    ] {
        for method in ["GET", "POST"] {
            let request = world.key.records(method, target, "");
            world.http().send(&request).await.assert_error(404, "not_found");
        }
    }
    let root = world.http().send(&HttpRequest::new("GET", "/", "")).await;
    assert!(root.json()["message"].as_str().is_some_and(|message| message.contains("/docs")), "{root:?}");
    let signed = world.key.events(batch(&[ana()]));
    let queried = HttpRequest { target: format!("{EVENTS}?source=x"), ..signed };
    assert_eq!(world.http().send(&queried).await.status, 200, "a query is not part of the route");
}

#[tokio::test]
async fn one_connection_serves_many_requests_even_after_errors() {
    let world = World::shared().await;
    let mut connection = RawConnection::to(world.http().address()).await;
    for expected in [401, 200, 400, 200] {
        let body = if expected == 400 { b"{}".to_vec() } else { batch(&[ana()]) };
        let request = world.key.events(body);
        let request = if expected == 401 { request.without("x-connect-key") } else { request };
        let length = format!("content-length: {}\r\n\r\n", request.body.len());
        connection.send([head(&request).as_slice(), length.as_bytes(), &request.body].concat()).await;
        let response = connection.response().await.expect("the connection stands");
        assert_eq!(response.status, expected, "{response:?}");
    }
}
