//! Requests that violate HTTP are rejected before anything else reads them.

use serde_json::Value;
use std::net::SocketAddr;
use tests::raw::{RawConnection, RawResponse, head};
use tests::{EVENTS, Program, World, batch, event};

/// Sends bytes to ingest on a new connection and returns the response.
async fn exchange(world: &World, bytes: &[u8]) -> (RawResponse, RawConnection) {
    exchange_with(world.http().address(), bytes).await
}

async fn exchange_with(address: SocketAddr, bytes: &[u8]) -> (RawResponse, RawConnection) {
    let mut connection = RawConnection::to(address).await;
    connection.send(bytes).await;
    let response = connection.response().await;
    (response.unwrap_or_else(|| panic!("no response to {:?}", String::from_utf8_lossy(bytes))), connection)
}

/// Checks for an error body of `invalid_request` whose message contains `named`.
fn assert_invalid(response: &RawResponse, named: &str) {
    assert_eq!(response.status, 400, "{named}: {response:?}");
    let body: Value = serde_json::from_str(&response.body).expect("an error body");
    let expected = (&400.into(), &"invalid_request".into());
    assert_eq!((&body["statusCode"], &body["code"]), expected, "{response:?}");
    assert!(tests::text(&body["message"]).contains(named), "{named}: {response:?}");
    assert!(response.head.to_lowercase().contains("\r\nx-request-id: "), "{response:?}");
}

#[tokio::test]
async fn rejects_targets_and_hosts_of_other_servers_and_closes_the_connection() {
    let world = World::with().join().await;
    for (request, named) in [
        ("CONNECT a:1 HTTP/1.1\r\nhost: a:1", "target"),
        ("GET a:1 HTTP/1.1\r\nhost: a:1", "target"),
        ("OPTIONS a:80 HTTP/1.1\r\nhost: a", "target"),
        ("GET a:1 HTTP/1.0", "target"),
        ("OPTIONS * HTTP/1.1\r\nhost: connect", "target"),
        ("GET http://other/openapi.json HTTP/1.1\r\nhost: connect", "Host"),
        ("GET http://other/openapi.json HTTP/1.0", "Host"),
        ("GET / HTTP/1.1", "Host"),
        ("GET / HTTP/1.1\r\nhost: connect\r\nhost: connect", "Host"),
        ("GET / HTTP/1.1\r\nhost: connect/elsewhere", "Host"),
    ] {
        // A second request on the connection is not read.
        let twice = format!("{request}\r\n\r\nGET / HTTP/1.1\r\nhost: connect\r\n\r\n");
        let (response, mut connection) = exchange(&world, twice.as_bytes()).await;
        assert_invalid(&response, named);
        assert!(response.head.to_lowercase().contains("connection: close"), "{request}: {response:?}");
        connection.until_closed_in_order().await;
    }
    assert!(!world.ingests[0].logs().contains("panicked"), "{}", world.ingests[0].logs());
}

#[tokio::test]
async fn the_servers_for_operators_need_one_host_and_a_path() {
    let world = World::with().ingests(0).start().await;
    let (worker, console) = (&world.workers[0], Program::console(world.settings()).await);
    for (address, path) in [
        (worker.operator_address(), "/livez"),
        (console.operator_address(), "/livez"),
        (console.http().address(), "/sign-in"),
    ] {
        let status = async |request: String| exchange_with(address, request.as_bytes()).await.0.status;
        for hosts in ["", "host: a\r\nhost: a\r\n"] {
            assert_eq!(status(format!("GET {path} HTTP/1.1\r\n{hosts}\r\n")).await, 400, "{path} {hosts:?}");
        }
        for target in ["example.com:80", "*", "example.com", "?a", "http://", "http:/a", "\\", "#", "/\u{7f}"] {
            for method in ["GET", "POST", "OPTIONS", "CONNECT"] {
                let request = format!("{method} {target} HTTP/1.1\r\nhost: a\r\n\r\n");
                let (response, mut connection) = exchange_with(address, request.as_bytes()).await;
                assert_eq!(response.status, 400, "{path} {request:?}: {response:?}");
                connection.until_closed_in_order().await;
            }
        }
        for target in ["//", "//a:b@c", "/%", "/%00?%ff", "/..//\u{e9}?\u{202e}", "http://a:1?b"] {
            let odd = status(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n")).await;
            assert!([303, 404].contains(&odd), "{path} {target:?}: {odd}");
        }
        assert_eq!(status(format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n")).await, 200, "{path}");
        assert_eq!(status(format!("GET {path} HTTP/1.0\r\n\r\n")).await, 200, "{path}");
    }
    let logs = worker.logs() + &console.logs();
    assert!(!logs.contains("panicked"), "{logs}");
}

#[tokio::test]
async fn serves_other_valid_request_forms() {
    let world = World::shared().await;
    for (request, status) in [
        ("GET / HTTP/1.0", 404),
        ("GET / HTTP/1.1\r\nhost:", 404),
        ("GET http://connect/ HTTP/1.1\r\nhost: connect", 404),
        ("CONNECT /api/v1/crm/connect/events HTTP/1.1\r\nhost: connect", 405),
        ("TRACE /api/v1/crm/connect/events HTTP/1.1\r\nhost: connect", 405),
    ] {
        let (response, _) = exchange(&world, format!("{request}\r\n\r\n").as_bytes()).await;
        assert_eq!(response.status, status, "{request}: {response:?}");
    }
}

#[tokio::test]
async fn a_body_has_one_end_and_the_rest_is_never_read_as_a_request() {
    let world = World::shared().await;
    let smuggled = format!("POST {EVENTS} HTTP/1.1\r\nhost: connect\r\ncontent-length: 0\r\n\r\n");
    let plain = b"GET / HTTP/1.1\r\nhost: connect\r\n\r\n".as_slice();
    for (framing, status) in [
        // Where a proxy may have used the length, the connection ends with the response (RFC 9112, 6.1).
        ("content-length: LENGTH\r\ntransfer-encoding: chunked", 200),
        ("transfer-encoding: chunked\r\ncontent-length: LENGTH", 200),
        ("transfer-encoding: chunked\r\ncontent-length: 3", 200),
        // A length after the coding is not even parsed.
        ("transfer-encoding: chunked\r\ncontent-length: five", 200),
        ("content-length: LENGTH\ntransfer-encoding: chunked", 200),
        ("transfer-encoding: gzip, chunked", 400),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked", 400),
    ] {
        let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
        let body = &request.body;
        let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n".as_slice()].concat();
        let framing = framing.replace("LENGTH", &chunked.len().to_string());
        let bytes =
            [&head(&request), framing.as_bytes(), b"\r\n\r\n", chunked.as_slice(), smuggled.as_bytes()].concat();
        for first in [b"".as_slice(), plain] {
            let mut connection = RawConnection::to(world.http().address()).await;
            if !first.is_empty() {
                connection.send(first).await;
                assert_eq!(connection.response().await.expect("a response").status, 404);
            }
            connection.send(&bytes).await;
            let response = connection.response().await.expect("a response");
            match status {
                400 => assert_invalid(&response, "Transfer-Encoding"),
                // The second one is a replay of the first one, whose body was read to the same end.
                _ => assert_eq!(response.status, if first.is_empty() { 200 } else { 401 }, "{framing}: {response:?}"),
            }
            connection.until_closed_in_order().await;
        }
        // What was refused was not read as an event: the signature is still unused.
        let again = world.http().send(&request).await.status;
        assert_eq!(again, if status == 400 { 200 } else { 401 }, "{framing}");
    }
}

/// What a caller and a proxy in front of ingest might read in two ways.
#[tokio::test]
async fn odd_heads_and_bodies_have_one_reading() {
    let world = World::shared().await;
    let plain = "GET / HTTP/1.1\r\nhost: a\r\n";
    for (bytes, status) in [
        ("GET / HTTP/1.1\nhost: a\n\n".to_owned(), 404),
        (format!("\r\n{plain}\r\n"), 404),
        (plain.to_uppercase() + "\r\n", 404),
        (format!("{plain}content-length: five\r\n\r\n"), 400),
        (format!("{plain}CONTENT-LENGTH: -1\r\n\r\n"), 400),
        (format!("{plain}content-length: 1\r\ncontent-length: 2\r\n\r\n"), 400),
        (format!("{plain}content-length: five\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n"), 400),
        (format!("{plain}content-length: 5\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n"), 400),
        ("GET / HTTP/1.1\nhost: a\ncontent-length: 5\ntransfer-encoding: chunked\n\n0\r\n\r\n".to_owned(), 404),
        (format!("{plain}content-length:\t  0005 \t\r\n\r\nabcde"), 404),
        (format!("{plain} folded: x\r\n\r\n"), 400),
        (format!("{plain}a b: x\r\n\r\n"), 400),
        (format!("{plain}a : x\r\n\r\n"), 400),
        (format!("{plain}x: \u{1}\r\n\r\n"), 400),
        (format!("{plain}x: {}\r\n\r\n", "y".repeat(1 << 15)), 404),
        (format!("{plain}x: {}\r\n\r\n", "y".repeat(1 << 20)), 431),
        (format!("{plain}{}\r\n", "x: y\r\n".repeat(100)), 431),
    ] {
        let (response, _) = exchange(&world, bytes.as_bytes()).await;
        assert_eq!(response.status, status, "{}: {response:?}", &bytes[..bytes.len().min(90)]);
    }
    // A chunk with many zeros and an extension, and a trailer like a head, in pieces, as a slow network brings them.
    let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
    let size = format!("transfer-encoding: chunked\r\n\r\n{:064x};a=b\r\n", request.body.len());
    let end = format!("\r\n0\r\ncontent-length: 7\r\nx: y\r\n\r\n{plain}\r\n");
    let mut connection = RawConnection::to(world.http().address()).await;
    for piece in [&head(&request), size.as_bytes(), &request.body, end.as_bytes()].concat().chunks(7) {
        connection.send(piece).await;
    }
    for status in [200, 404] {
        assert_eq!(connection.response().await.expect("a response").status, status);
    }
}

#[tokio::test]
async fn a_caller_that_keeps_sending_gets_its_error_response_without_a_reset() {
    let world = World::shared().await;
    // More than the connection's read buffer, and than the buffers of two sockets.
    let more = vec![b'x'; 3 << 20];
    for (refused, status) in [
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 404),
        ("GET a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nhost: connect\r\nno header\r\n\r\n", 400),
    ] {
        let mut connection = RawConnection::to(world.http().address()).await;
        connection.send_all([refused.as_bytes(), &more].concat()).await;
        let response = connection.response().await.unwrap_or_else(|| panic!("no response to {refused:?}"));
        assert_eq!(response.status, status, "{refused:?}: {response:?}");
        connection.until_closed_in_order().await;
    }
}

#[tokio::test]
async fn rejects_an_unsupported_content_encoding_and_keeps_the_connection() {
    let world = World::shared().await;
    let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
    for coding in ["gzip", "br", "identity, gzip"] {
        let response = world.http().send(&request.clone().with("content-encoding", coding)).await;
        let message = response.assert_error(400, "invalid_request");
        assert!(message.contains("Content-Encoding"), "{message}");
        assert_eq!(response.header("connection"), "", "{response:?}");
    }
    assert_eq!(world.http().send(&request.with("content-encoding", "identity")).await.status, 200);
}
