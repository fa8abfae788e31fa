//! Idle connections of one peer do not lock out others.

use futures_util::future::join_all;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tests::raw::RawConnection;
use tests::{MAX_WAIT, Program, World, eventually, until_equal};

const STRANGER: [u8; 4] = [127, 0, 0, 2];
const CALLER: [u8; 4] = [127, 0, 0, 3];
const OTHER_NETWORK: [u8; 4] = [127, 0, 1, 2];
const THIRD_NETWORK: [u8; 4] = [127, 0, 4, 2];
const REQUEST: &str = "GET / HTTP/1.1\r\nhost: connect\r\n\r\n";

/// The status code of a response. `None` if the connection was closed.
async fn status(address: SocketAddr, source: [u8; 4]) -> Option<u16> {
    let mut connection = RawConnection::from(source, address).await;
    connection.send(REQUEST).await;
    connection.response().await.map(|response| response.status)
}

async fn open(address: SocketAddr, source: [u8; 4], count: usize) -> Vec<RawConnection> {
    let mut opened = Vec::new();
    for _ in 0..count {
        opened.push(RawConnection::from(source, address).await);
    }
    opened
}

#[tokio::test]
async fn one_address_with_idle_connections_does_not_lock_out_others() {
    // None is closed while the others are opened, which takes long on a busy machine.
    let world = World::with().set("CONNECT_HEADER_TIMEOUT", "10m").set("CONNECT_IDLE_TIMEOUT", "10m").join().await;
    let address = world.http().address();
    let idle = open(address, STRANGER, 4_200).await;
    let refused = [("reason", "peer")];
    world.ingests[0].until_sum("connect_http_connections_refused_total", &refused, 4_200.0 - 1_024.0).await;
    assert_eq!(status(address, CALLER).await, Some(404));
    let metrics = world.ingests[0].metrics().await;
    assert!(metrics.sum("connect_http_connections", &[("state", "idle")]) >= 1_024.0);
    assert_eq!(metrics.sum("connect_http_connections_max", &[]), 4_096.0);
    assert!(world.ingests[0].operator_get("/readyz").await.is_ok_and(|response| response.status == 200));
    let lines = world.ingests[0].logs().matches("connection refused: too many connections").count();
    assert!((1..60).contains(&lines), "{lines} lines");
    drop(idle);
}

#[tokio::test]
async fn a_full_connection_table_closes_the_longest_idle_connection() {
    let world = World::with()
        .set("CONNECT_MAX_CONNECTIONS", "4")
        .set("CONNECT_MAX_CONNECTIONS_PER_PEER", "4")
        .set("CONNECT_MAX_CONNECTIONS_PER_NETWORK", "4")
        .set("CONNECT_HEADER_TIMEOUT", "10m")
        .set("CONNECT_IDLE_TIMEOUT", "10m")
        .join()
        .await;
    let address = world.http().address();
    let mut idle = open(address, STRANGER, 4).await;
    world.ingests[0].until_sum("connect_http_connections", &[("state", "idle")], 4.0).await;
    // A connection with an incomplete head counts as idle.
    idle[0].send("POST / HTTP/1.1\r\nhost: conn").await;
    assert_eq!(status(address, OTHER_NETWORK).await, Some(404));
    idle.remove(0).until_closed().await;
    // The other connections still work.
    for connection in &mut idle {
        connection.send(REQUEST).await;
        assert_eq!(connection.response().await.expect("a response").status, 404);
    }
}

#[tokio::test]
async fn idle_connections_do_not_lock_out_others_from_the_servers_for_operators_and_are_closed() {
    let world = World::with().ingests(0).start().await;
    let console = Program::console(world.settings()).await;
    let servers = [(world.workers[0].operator_address(), "/livez"), (console.http().address(), "/sign-in")];
    let closing = servers.map(async |(address, path)| {
        let mut incomplete = RawConnection::from(STRANGER, address).await;
        incomplete.send(&format!("GET {path} HTTP/1.1\r\nhost: conn")).await;
        let begun = Instant::now();
        incomplete.until_closed().await;
        assert!(begun.elapsed() < Duration::from_secs(60), "{path}: {:?}", begun.elapsed());
        let mut idle = open(address, STRANGER, 128).await;
        idle.extend(open(address, OTHER_NETWORK, 128).await);
        let request = format!("GET {path} HTTP/1.1\r\nhost: connect\r\n\r\n");
        let mut connection = RawConnection::from(THIRD_NETWORK, address).await;
        connection.send(&request).await;
        assert_eq!(connection.response().await.expect("a response").status, 200, "{path}");
        // It has taken the place of one of them, at once: the others are still open.
        let last = idle.last_mut().expect("an idle connection");
        last.send(&request).await;
        assert_eq!(last.response().await.expect("a response").status, 200, "{path}");
        // Without these, the time for a first request would close it.
        for connection in &mut idle[1..] {
            connection.send(&request).await;
            connection.response().await.expect("a response");
        }
        idle.swap_remove(1).until_closed().await;
        assert!(begun.elapsed() < Duration::from_secs(90), "{path}: {:?}", begun.elapsed());
    });
    join_all(closing).await;
}

#[tokio::test]
async fn probes_find_a_connection_although_their_address_has_used_up_its_share() {
    let world = World::with().ingests(0).start().await;
    world.until_ready().await;
    let address = world.workers[0].operator_address();
    let _held = open(address, STRANGER, 256).await;
    for path in ["/livez", "/readyz"] {
        let mut probe = RawConnection::from(STRANGER, address).await;
        probe.send(format!("GET {path} HTTP/1.1\r\nhost: connect\r\n\r\n")).await;
        assert_eq!(probe.response().await.expect("a response").status, 200, "{path}");
    }
}

#[tokio::test]
async fn a_connection_table_full_of_slow_bodies_closes_the_one_read_longest() {
    let world = World::with()
        .set("CONNECT_MAX_CONNECTIONS", "2")
        .set("CONNECT_MAX_CONNECTIONS_PER_PEER", "1")
        .set("CONNECT_MAX_CONNECTIONS_PER_NETWORK", "1")
        .set("CONNECT_BODY_TIMEOUT", "10m")
        .join()
        .await;
    let address = world.http().address();
    let begun = "POST /api/v1/crm/connect/events HTTP/1.1\r\nhost: connect\r\ncontent-length: 9\r\n\r\n{";
    let mut slow = Vec::new();
    for (source, active) in [(STRANGER, 1.0), (OTHER_NETWORK, 2.0)] {
        let mut connection = RawConnection::from(source, address).await;
        connection.send(begun).await;
        world.ingests[0].until_sum("connect_http_connections", &[("state", "active")], active).await;
        slow.push(connection);
    }
    until_equal("a new one is served", Some(404), async || status(address, THIRD_NETWORK).await).await;
    slow.remove(0).until_closed().await;
    slow[0].send("\"a\": 1}}").await;
    assert_eq!(slow[0].response().await.expect("a response").status, 401, "the other connection still works");
}

#[tokio::test]
async fn closes_a_connection_whose_peer_does_not_read() {
    let world = World::with().set("CONNECT_IDLE_TIMEOUT", "2s").join().await;
    let mut connection = RawConnection::from(STRANGER, world.http().address()).await;
    let requests = "GET /api/v1/crm/connect/openapi.json HTTP/1.1\r\nhost: connect\r\n\r\n".repeat(400);
    connection.send(requests).await;
    eventually("a response", MAX_WAIT, async || {
        let requests = world.ingests[0].metrics().await.sum("connect_http_requests_total", &[("status", "200")]);
        if requests > 0.0 { Ok(()) } else { Err("none".to_owned()) }
    })
    .await;
    world.ingests[0].until_sum("connect_http_connections", &[], 0.0).await;
}
