//! Requests that HTTP forbids are refused before anything else looks at them.

use serde_json::Value;
use tests::event::batch;
use tests::raw::{RawAnswer, RawConnection, head};
use tests::{EVENTS, Outgoing, RECORDS, World, event};

/// Sends bytes on a connection of their own and gives the answer.
async fn exchange(world: &World, bytes: &[u8]) -> (RawAnswer, RawConnection) {
    let mut connection = RawConnection::to(world.http().address()).await;
    connection.send(bytes).await;
    let answer = connection.answer().await;
    (answer.unwrap_or_else(|| panic!("no answer to {:?}", String::from_utf8_lossy(bytes))), connection)
}

/// Checks for an error body of `invalid_request` whose message has `named`.
fn assert_invalid(answer: &RawAnswer, named: &str) {
    assert_eq!(answer.status, 400, "{named}: {answer:?}");
    let body: Value = serde_json::from_str(&answer.body).expect("an error body");
    assert_eq!((&body["statusCode"], &body["code"]), (&400.into(), &"invalid_request".into()), "{answer:?}");
    assert!(tests::text(&body["message"]).contains(named), "{named}: {answer:?}");
    assert!(answer.head.to_lowercase().contains("\r\nx-request-id: "), "{answer:?}");
}

#[tokio::test]
async fn refuses_targets_and_hosts_that_are_not_this_servers_and_closes_the_connection() {
    let world = World::with().workers(0).start().await;
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
        let (answer, mut connection) = exchange(&world, twice.as_bytes()).await;
        assert_invalid(&answer, named);
        assert!(answer.head.to_lowercase().contains("connection: close"), "{request}: {answer:?}");
        connection.until_closed_in_order().await;
    }
    assert!(!world.ingests[0].logs().contains("panicked"), "{}", world.ingests[0].logs());
}

#[tokio::test]
async fn still_serves_other_forms_of_requests_that_are_allowed() {
    let world = World::with().workers(0).start().await;
    for (request, status) in [
        ("GET / HTTP/1.0", 404),
        ("GET / HTTP/1.1\r\nhost:", 404),
        ("GET http://connect/ HTTP/1.1\r\nhost: connect", 404),
        ("CONNECT /api/v1/crm/connect/events HTTP/1.1\r\nhost: connect", 405),
        ("TRACE /api/v1/crm/connect/events HTTP/1.1\r\nhost: connect", 405),
    ] {
        let (answer, _) = exchange(&world, format!("{request}\r\n\r\n").as_bytes()).await;
        assert_eq!(answer.status, status, "{request}: {answer:?}");
    }
}

#[tokio::test]
async fn refuses_a_body_whose_end_is_unclear_and_never_reads_what_follows_as_a_request() {
    let world = World::start().await;
    let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
    let (head, body) = (head(&request), &request.body);
    let chunked = [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n0\r\n\r\n".as_slice()].concat();
    let smuggled = format!("POST {EVENTS} HTTP/1.1\r\nhost: connect\r\ncontent-length: 0\r\n\r\n");
    let length = format!("content-length: {}", chunked.len());
    for (framing, named) in [
        (format!("{length}\r\ntransfer-encoding: chunked"), "Content-Length"),
        (format!("transfer-encoding: chunked\r\n{length}"), "Content-Length"),
        ("transfer-encoding: gzip, chunked".to_owned(), "Transfer-Encoding"),
        ("transfer-encoding: chunked\r\ntransfer-encoding: chunked".to_owned(), "Transfer-Encoding"),
    ] {
        let bytes =
            [&head, framing.as_bytes(), b"\r\n\r\n", chunked.as_slice(), smuggled.as_bytes()].concat();
        let (answer, mut connection) = exchange(&world, &bytes).await;
        assert_invalid(&answer, named);
        connection.until_closed_in_order().await;
    }
    // The same on a connection that has had a request before.
    let plain = b"GET / HTTP/1.1\r\nhost: connect\r\n\r\n".as_slice();
    let both = format!("{length}\r\ntransfer-encoding: chunked\r\n\r\n");
    let (first, mut connection) = exchange(&world, plain).await;
    assert_eq!(first.status, 404);
    connection.send([&head, both.as_bytes(), chunked.as_slice()].concat()).await;
    assert_invalid(&connection.answer().await.expect("an answer"), "Content-Length");
    connection.until_closed_in_order().await;
    // Nothing of it was taken as an event: the signature is still unused.
    assert_eq!(world.http().send(&request).await.status, 200);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 1);
}

#[tokio::test]
async fn closes_a_connection_whose_framing_cannot_be_followed() {
    let world = World::with().workers(0).start().await;
    let first = "GET / HTTP/1.1\r\nhost: connect\r\n\r\n";
    let begun = "POST / HTTP/1.1\r\nhost: connect\r\n";
    let both = format!("{begun}content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n");
    for (start, end) in [
        (format!("content-length:{}", " ".repeat(130)), "5\r\n\r\nhello"),
        (format!("transfer-encoding: chunked\r\n\r\n{}", "0".repeat(130)), "5\r\nhello\r\n0\r\n\r\n"),
    ] {
        // The line arrives in two pieces: its beginning together with a request that has been answered before the rest.
        let (answer, mut connection) = exchange(&world, format!("{first}{begun}{start}").as_bytes()).await;
        assert_eq!(answer.status, 404);
        connection.send(format!("{end}{both}")).await;
        let mut last = connection.answer().await.expect("an answer to the first of the two");
        assert_eq!(last.status, 404, "{last:?}");
        // It may have been answered before the line had arrived; then the next request ends the connection.
        if !last.head.to_lowercase().contains("connection: close") {
            last = connection.answer().await.expect("another answer");
            assert_invalid(&last, "another connection");
        }
        assert!(last.head.to_lowercase().contains("connection: close"), "{last:?}");
        connection.until_closed_in_order().await;
    }
}

#[tokio::test]
async fn a_caller_that_goes_on_sending_gets_its_refusal_and_no_reset() {
    let world = World::with().workers(0).start().await;
    // More than the connection's read buffer, and than the buffers of two sockets.
    let more = vec![b'x'; 3 << 20];
    for refused in [
        "POST / HTTP/1.1\r\nhost: connect\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET a:1 HTTP/1.1\r\nhost: a:1\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: connect\r\nno header\r\n\r\n",
    ] {
        let mut connection = RawConnection::to(world.http().address()).await;
        connection.send_all([refused.as_bytes(), &more].concat()).await;
        let answer = connection.answer().await.unwrap_or_else(|| panic!("no answer to {refused:?}"));
        assert_eq!(answer.status, 400, "{refused:?}: {answer:?}");
        connection.until_closed_in_order().await;
    }
}

#[tokio::test]
async fn refuses_a_body_in_another_coding_and_keeps_the_connection() {
    let world = World::start().await;
    let request = world.key.events(batch(&[event("contact.identified").email("ana@example.com")]));
    for coding in ["gzip", "br", "identity, gzip"] {
        let answer = world.http().send(&request.clone().with("content-encoding", coding)).await;
        let message = answer.assert_error(400, "invalid_request");
        assert!(message.contains("Content-Encoding"), "{message}");
        assert_eq!(answer.header("connection"), "", "{answer:?}");
    }
    assert_eq!(world.http().send(&request.with("content-encoding", "identity")).await.status, 200);
}

#[tokio::test]
async fn every_operation_is_described_with_what_http_forbids() {
    let world = World::with().workers(0).start().await;
    let document =
        world.http().send(&Outgoing::new("GET", &format!("{RECORDS}/openapi.json"), "")).await.json();
    let paths = document["paths"].as_object().expect("paths");
    for (path, item) in paths {
        for method in ["get", "post", "patch"].into_iter().filter(|method| item.get(method).is_some()) {
            let path = path.replace("{clientId}", "1").replace("{leadId}", "1");
            let request = Outgoing::new(&method.to_uppercase(), &path, "{}").with("content-encoding", "gzip");
            world.http().send(&request).await.assert_error(400, "invalid_request");
            let examples = &item[method]["responses"]["400"]["content"]["application/json"]["examples"];
            assert!(examples.get("invalid_request").is_some(), "{method} {path}");
        }
    }
}
