//! Bounds that all callers share cannot be used up by one of them: places for requests, and memory for bodies.

use futures_util::future::join_all;
use std::net::SocketAddr;
use tests::event::batch;
use tests::raw::{RawConnection, head};
use tests::{ApiKey, EVENTS, Http, Outgoing, PATIENCE, World, event, eventually};

const STRANGER: [u8; 4] = [127, 0, 0, 2];
const CALLER: [u8; 4] = [127, 0, 0, 3];

/// Most tries of a key that is remembered, unless the machine is so busy that ingest could not have it confirmed lately.
const TRIES: usize = 3;

/// A valid batch of a key's tenant.
fn body(key: &ApiKey) -> Vec<u8> {
    batch(&[event("contact.identified").tenant(&key.tenant).email("ana@example.com")])
}

/// A valid batch of `bytes` bytes.
fn large_body(key: &ApiKey, bytes: usize) -> Vec<u8> {
    let mut body = body(key);
    body.resize(bytes, b' ');
    body
}

async fn begin(source: [u8; 4], address: SocketAddr, request: &Outgoing) -> RawConnection {
    let mut connection = RawConnection::from(source, address).await;
    let length = format!("content-length: {}\r\n\r\n", request.body.len());
    connection.send([head(request).as_slice(), length.as_bytes(), &request.body].concat()).await;
    connection
}

/// The status code of a request from an address.
async fn status(source: [u8; 4], world: &World, request: &Outgoing) -> Option<u16> {
    let mut connection = begin(source, world.http().address(), request).await;
    connection.answer().await.map(|answer| answer.status)
}

/// Waits until `metric` is at least `expected`.
async fn until_at_least(world: &World, metric: &str, labels: &[(&str, &str)], expected: f64) {
    eventually(metric, PATIENCE, async || {
        let found = world.ingests[0].metrics().await.sum(metric, labels);
        if found >= expected { Ok(()) } else { Err(format!("{found} of {expected}")) }
    })
    .await;
}

#[tokio::test]
async fn look_ups_of_unknown_keys_keep_no_known_key_out() {
    let world =
        World::with().set("CONNECT_MAX_IN_FLIGHT", "8").set("CONNECT_STORE_TIMEOUT", "15s").start().await;
    assert_eq!(status(CALLER, &world, &world.key.events(body(&world.key))).await, Some(200));
    let lock = world.database.connect().await;
    lock.batch_execute("BEGIN; LOCK TABLE api_keys IN ACCESS EXCLUSIVE MODE").await.expect("a lock");
    let strangers = join_all((0..20).map(async |i| {
        let stranger = ApiKey { prefix: format!("ck_stranger{i}"), ..world.key.clone() };
        begin(STRANGER, world.http().address(), &stranger.events(body(&world.key))).await
    }))
    .await;
    let waits = "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'";
    eventually("look-ups wait", PATIENCE, async || match world.database.count(waits).await {
        0 => Err("nobody waits".to_owned()),
        _ => Ok(()),
    })
    .await;
    let mut answered = None;
    for _ in 0..TRIES {
        answered = status(CALLER, &world, &world.key.events(body(&world.key))).await;
        if answered == Some(200) {
            break;
        }
    }
    assert_eq!(answered, Some(200));
    drop(strangers);
}

#[tokio::test]
async fn agencies_that_use_all_of_their_places_leave_some_for_another() {
    let mut world = World::with()
        .workers(0)
        .set("CONNECT_MAX_IN_FLIGHT", "16")
        .set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "4")
        .start()
        .await;
    let mut busy = vec![world.key.clone()];
    for slug in ["beta", "gamma", "delta"] {
        busy.push(world.add_tenant(slug).await);
    }
    let quiet = world.add_tenant("epsilon").await;
    let http = Http::new(world.http().address());
    let requests: Vec<Outgoing> = busy.iter().flat_map(|key| [0; 4].map(|_| key.events(body(key)))).collect();
    let bursts = join_all(requests.iter().map(async |request| http.send(request).await.status));
    let one = async {
        eventually("every request has been admitted or refused", PATIENCE, async || {
            let metrics = world.ingests[0].metrics().await;
            let active = metrics.sum("connect_http_connections", &[("state", "active")]);
            let refused = metrics.sum("connect_refused_total", &[]);
            if active + refused >= 16.0 { Ok(()) } else { Err(format!("{active} and {refused}")) }
        })
        .await;
        let request = quiet.events(body(&quiet));
        let sent = Http::new(world.http().address());
        let answered = tokio::spawn(async move { sent.send(&request).await.status });
        world.add_worker().await;
        answered.await.expect("an answer")
    };
    let (bursts, answered) = futures_util::join!(bursts, one);
    assert_eq!(answered, 200);
    assert!(bursts.iter().filter(|status| **status == 200).count() >= 12, "{bursts:?}");
}

#[tokio::test]
async fn one_address_with_stalled_bodies_leaves_memory_for_another() {
    let world = World::with()
        .set("CONNECT_MAX_BODY", "1MiB")
        .set("CONNECT_BODY_BUDGET", "16MiB")
        .set("CONNECT_BODY_TIMEOUT", "1m")
        .start()
        .await;
    let stalled = join_all((0..40).map(async |_| {
        let mut connection = RawConnection::from(STRANGER, world.http().address()).await;
        let size = (1 << 20) - 1;
        let head = format!(
            "POST {EVENTS} HTTP/1.1\r\nhost: connect\r\ntransfer-encoding: chunked\r\n\r\n{size:x}\r\n"
        );
        connection.send([head.as_bytes(), &vec![b' '; size - 1]].concat()).await;
        connection
    }))
    .await;
    let reason = [("reason", "body_budget")];
    // With 1 MiB for each there is room for no more than 16.
    until_at_least(&world, "connect_refused_total", &reason, 24.0).await;
    let large = world.key.events(large_body(&world.key, 1_000_000));
    assert_eq!(status(CALLER, &world, &large).await, Some(200));
    drop(stalled);
}

#[tokio::test]
async fn a_body_counts_until_it_is_published_and_replied_to_also_when_its_caller_hangs_up() {
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
    let until_idle = async || {
        eventually("nobody waits for a response", PATIENCE, async || {
            let active = [("state", "active")];
            match world.ingests[0].metrics().await.sum("connect_http_connections", &active) {
                0.0 => Ok(()),
                count => Err(format!("{count} do")),
            }
        })
        .await;
    };
    until_idle().await;
    world.http().send(&request()).await.assert_error(503, "overloaded");
    let body_budget = [("reason", "body_budget")];
    let refused = world.ingests[0].metrics().await.sum("connect_refused_total", &body_budget);
    assert_eq!(refused, 1.0);
    let again = request();
    world.add_worker().await;
    eventually("the body is released", PATIENCE, async || match world.http().send(&again).await.status {
        200 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}
