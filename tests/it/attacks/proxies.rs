//! Callers behind a trusted proxy have their own shares, and no other peer can claim to be behind one.

use serde_json::Value;
use tests::raw::{RawConnection, RawResponse};
use tests::{EVENTS, MAX_WAIT, World, eventually, until_equal};

const PROXY: [u8; 4] = [127, 0, 0, 9];
const STRANGER: [u8; 4] = [127, 0, 2, 9];

/// Ingest behind `PROXY`, with shares of two for an address and three for a network.
async fn behind_a_proxy() -> World {
    World::with()
        .set("CONNECT_TRUSTED_PROXIES", "10.0.0.0/8,127.0.0.9")
        .set("CONNECT_MAX_CONNECTIONS_PER_PEER", "2")
        .set("CONNECT_MAX_CONNECTIONS_PER_NETWORK", "3")
        .join()
        .await
}

/// A connection from `source` with a request whose body does not end.
async fn begin(world: &World, source: [u8; 4], header: &str) -> RawConnection {
    let mut connection = RawConnection::from(source, world.http().address()).await;
    let head = format!("POST {EVENTS} HTTP/1.1\r\nhost: connect\r\n{header}\r\ncontent-length: 2\r\n\r\n{{");
    connection.send(head).await;
    connection
}

/// The response to a request without a body.
async fn ask(world: &World, source: [u8; 4], header: &str) -> Option<RawResponse> {
    let mut connection = RawConnection::from(source, world.http().address()).await;
    connection.send(format!("GET / HTTP/1.1\r\nhost: connect\r\n{header}\r\n\r\n")).await;
    connection.response().await
}

async fn status(world: &World, source: [u8; 4], header: &str) -> Option<u16> {
    ask(world, source, header).await.map(|response| response.status)
}

async fn until_active(world: &World, count: f64) {
    world.ingests[0].until_sum("connect_http_connections", &[("state", "active")], count).await;
}

#[tokio::test]
async fn peers_behind_a_trusted_proxy_have_their_own_shares_and_the_proxy_has_none() {
    let world = behind_a_proxy().await;
    let mut under_way = Vec::new();
    for header in [
        "x-forwarded-for: 198.51.100.1, 192.0.2.1",
        "forwarded: for=198.51.100.2, for=\"192.0.2.1:_hidden\", for=10.0.0.1",
        "x-forwarded-for: 192.0.2.2",
        "x-forwarded-for: 198.51.100.1",
    ] {
        under_way.push(begin(&world, PROXY, header).await);
    }
    until_active(&world, 4.0).await;
    let refused = ask(&world, PROXY, "x-forwarded-for: 192.0.2.1").await.expect("a response");
    let body: Value = serde_json::from_str(&refused.body).expect("an error body");
    assert_eq!((refused.status, &body["code"]), (503, &"overloaded".into()), "{refused:?}");
    assert!(refused.head.to_lowercase().contains("\r\nretry-after: 1\r\n"), "{refused:?}");
    assert_eq!(status(&world, PROXY, "x-forwarded-for: 192.0.2.3").await, Some(503), "a full network");
    // Only the proxy's own entry counts, not what the caller wrote before it.
    assert_eq!(status(&world, PROXY, "x-forwarded-for: 192.0.2.1, 198.51.100.1").await, Some(404));
    assert_eq!(status(&world, PROXY, "x-forwarded-for: 203.0.113.1").await, Some(404));
    let metrics = world.ingests[0].metrics().await;
    assert_eq!(metrics.sum("connect_overloaded_total", &[("reason", "connections")]), 2.0);
    eventually("the network is logged", MAX_WAIT, async || {
        let logs = world.ingests[0].logs();
        let line = logs.lines().find(|line| line.contains("request refused: too many requests of its peer"));
        if line.is_some_and(|line| line.contains("192.0.2.0/24")) { Ok(()) } else { Err(logs) }
    })
    .await;

    let mut ended = under_way.remove(0);
    ended.send("}").await;
    assert_eq!(ended.response().await.expect("a response").status, 401);
    let retried = async || status(&world, PROXY, "x-forwarded-for: 192.0.2.1").await;
    until_equal("a place is free again", Some(404), retried).await;
}

#[tokio::test]
async fn forwarding_headers_of_untrusted_peers_are_ignored() {
    let world = behind_a_proxy().await;
    let _under_way = [
        begin(&world, PROXY, "x-forwarded-for: 192.0.2.1").await,
        begin(&world, PROXY, "x-forwarded-for: 192.0.2.1").await,
        begin(&world, STRANGER, "x-forwarded-for: 192.0.2.9").await,
        begin(&world, STRANGER, "forwarded: for=10.0.0.1").await,
    ];
    until_active(&world, 4.0).await;
    assert_eq!(status(&world, STRANGER, "forwarded: for=198.51.100.9").await, None, "a third connection");
    assert_eq!(status(&world, [127, 0, 3, 1], "x-forwarded-for: 192.0.2.1").await, Some(404));
    // Through the proxy, the same address uses the same share.
    assert_eq!(status(&world, PROXY, "x-forwarded-for: 127.0.2.9").await, Some(503));
}

#[tokio::test]
async fn a_request_with_an_unreadable_forwarding_header_counts_for_the_proxy() {
    let world = behind_a_proxy().await;
    let mut under_way = vec![
        begin(&world, PROXY, "x-forwarded-for: 192.0.2.1, nonsense").await,
        begin(&world, PROXY, "forwarded: for=\"[::1").await,
    ];
    until_active(&world, 2.0).await;
    for header in [
        "accept: */*",
        "x-forwarded-for:",
        "forwarded: for=unknown",
        "forwarded: for=192.0.2.7\r\nx-forwarded-for: 192.0.2.8",
        "forwarded: for=192.0.2.1;for=192.0.2.1",
        "x-forwarded-for: \u{fc}",
    ] {
        assert_eq!(status(&world, PROXY, header).await, Some(503), "{header}");
    }
    assert_eq!(status(&world, PROXY, "x-forwarded-for: \u{fc}, 192.0.2.1").await, Some(404));
    under_way.clear();
    until_active(&world, 0.0).await;
    assert_eq!(status(&world, PROXY, "accept: */*").await, Some(404));
    assert!(!world.ingests[0].logs().contains("panicked"), "{}", world.ingests[0].logs());
}
