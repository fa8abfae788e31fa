//! One caller cannot exhaust what all callers share: the look-up of keys, and memory for bodies.

use futures_util::future::join_all;
use std::fs;
use std::net::SocketAddr;
use tests::raw::RawConnection;
use tests::{ApiKey, EVENTS, HttpRequest, Program, World, batch, event, until, until_equal};

const STRANGER: [u8; 4] = [127, 0, 0, 2];
const CALLER: [u8; 4] = [127, 0, 0, 3];

/// A valid batch of a key's tenant.
pub(crate) fn body(key: &ApiKey) -> Vec<u8> {
    batch(&[event("contact.identified").tenant(&key.tenant).email("ana@example.com")])
}

/// A valid batch of `bytes` bytes.
fn large_body(key: &ApiKey, bytes: usize) -> Vec<u8> {
    let mut body = body(key);
    body.resize(bytes, b' ');
    body
}

async fn begin(source: [u8; 4], address: SocketAddr, request: &HttpRequest) -> RawConnection {
    let mut connection = RawConnection::from(source, address).await;
    connection.send_request(request).await;
    connection
}

/// Sends all but the last byte of a chunk that is almost as large as `bytes`.
async fn stall(source: [u8; 4], world: &World, bytes: usize) -> RawConnection {
    let mut connection = RawConnection::from(source, world.http().address()).await;
    let size = bytes - 1;
    let head = format!("POST {EVENTS} HTTP/1.1\r\nhost: connect\r\ntransfer-encoding: chunked\r\n\r\n{size:x}\r\n");
    connection.send([head.as_bytes(), &vec![b' '; size - 1]].concat()).await;
    connection
}

/// Resident MiB of ingest.
fn resident(world: &World) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", world.ingests[0].id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") / 1024
}

/// The status code of a request from an address.
async fn status(source: [u8; 4], world: &World, request: &HttpRequest) -> Option<u16> {
    let mut connection = begin(source, world.http().address(), request).await;
    connection.response().await.map(|response| response.status)
}

#[tokio::test]
async fn no_request_waits_for_the_table_of_keys_and_no_ingest_is_ready_before_it_has_read_it() {
    let world = World::with().start().await;
    let lock = world.database.begin("LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE").await;
    for i in 0..20 {
        let stranger = ApiKey { prefix: format!("ck_stranger{i}"), ..world.key.clone() };
        assert_eq!(status(STRANGER, &world, &stranger.events(body(&world.key))).await, Some(401));
    }
    assert_eq!(status(CALLER, &world, &world.key.events(body(&world.key))).await, Some(200));

    let second = Program::listening("connect-ingest", world.settings()).await;
    until_equal("only the keys are missing", "postgres", async || {
        let unready = second.until_unready().await;
        let is_missing = |check: &&String| unready["checks"][check.as_str()] == false;
        let checks = unready["checks"].as_object().expect("checks").keys();
        checks.filter(is_missing).cloned().collect::<Vec<_>>().join(" ")
    })
    .await;
    lock.batch_execute("ROLLBACK").await.expect("a rollback");
    second.until_ready().await;
}

#[tokio::test]
async fn stalled_bodies_of_one_address_leave_memory_for_another() {
    let world = World::with()
        .set("CONNECT_MAX_BODY", "1MiB")
        .set("CONNECT_BODY_BUDGET", "16MiB")
        .set("CONNECT_BODY_TIMEOUT", "1m")
        .join()
        .await;
    let stalled = join_all((0..40).map(|_| stall(STRANGER, &world, 1 << 20))).await;
    let reason = [("reason", "body")];
    // At 1 MiB each, the budget holds at most 16.
    let refused = async || world.ingests[0].metrics().await.sum("connect_overloaded_total", &reason);
    until("bodies are refused", refused, |&refused| refused >= 24.0).await;
    let large = world.key.events(large_body(&world.key, 1_000_000));
    assert_eq!(status(CALLER, &world, &large).await, Some(200));
    drop(stalled);
}

#[tokio::test]
async fn stalled_bodies_of_many_networks_take_no_more_memory_than_their_budget_and_give_it_back() {
    let world = World::with()
        .workers(0)
        .set("CONNECT_MAX_BODY", "4MiB")
        .set("CONNECT_BODY_BUDGET", "64MiB")
        .set("CONNECT_BODY_TIMEOUT", "2m")
        .start()
        .await;
    let before = resident(&world);
    let stalled = join_all((0..40).map(|i| stall([127, 0, 1 + i % 16, 1], &world, 4 << 20))).await;
    // Beside the bodies, which would be 160 MiB, there are read buffers, and what the allocator keeps.
    let (budget, beside) = (64, 32);
    let refused = async || world.ingests[0].metrics().await.sum("connect_overloaded_total", &[("reason", "body")]);
    until("all others are refused", refused, |&refused| refused >= 24.0).await;
    until("the budget is held", async || resident(&world), |held| *held >= before + budget * 4 / 5).await;
    assert!(resident(&world) < before + budget + beside, "{} MiB, {before} before", resident(&world));
    drop(stalled);
    until("the memory is given back", async || resident(&world), |held| *held < before + beside).await;
}

#[tokio::test]
async fn a_body_counts_against_the_budget_until_its_reply_even_after_a_disconnect() {
    let mut world = World::with()
        .workers(0)
        .set("CONNECT_MAX_BODY", "1MiB")
        .set("CONNECT_BODY_BUDGET", "2MiB")
        .set("CONNECT_REPLY_TIMEOUT", "1m")
        .start()
        .await;
    let request = || world.key.events(large_body(&world.key, 1_000_000));
    let first = begin(CALLER, world.http().address(), &request()).await;
    world.until_depth("events", 1).await;
    drop(first);
    world.ingests[0].until_sum("connect_http_connections", &[("state", "active")], 0.0).await;
    world.http().send(&request()).await.assert_error(503, "overloaded");
    let body_budget = [("reason", "body")];
    assert_eq!(world.ingests[0].metrics().await.sum("connect_overloaded_total", &body_budget), 1.0);
    let again = request();
    world.add_worker().await;
    until_equal("the body is released", 200, async || world.http().send(&again).await.status).await;
}
