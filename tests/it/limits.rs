//! Bounds and what is answered when they are reached (architecture: Invariant 5).

use futures_util::future::join_all;
use serde_json::json;
use tests::event::batch;
use tests::raw::{RawConnection, head};
use tests::{ALL_SCOPES, ApiKey, Http, World, event};

/// A valid batch of a key's agency.
fn body(key: &ApiKey) -> Vec<u8> {
    batch(&[event("contact.identified").tenant(&key.tenant).email("ana@example.com")])
}

#[tokio::test]
async fn one_agency_takes_its_share_and_another_keeps_its_own() {
    let mut world = World::with().workers(0).set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "3").start().await;
    let zeta = world.add_tenant("zeta").await;
    let (key, http) = (world.key.clone(), Http::new(world.http().address()));
    let refused = key.events(body(&key));
    // Of three keys: requests of one key may share a message.
    let keys = [key.clone(), world.add_key(ALL_SCOPES).await, world.add_key(ALL_SCOPES).await];
    let ours = join_all(keys.iter().map(async |key| http.send(&key.events(body(key))).await));
    let theirs = async {
        world.until_depth("events", 3).await;
        let answer = http.send(&refused).await;
        answer.assert_error(503, "overloaded");
        assert!(!answer.header("retry-after").is_empty(), "{answer:?}");
        let request = zeta.events(body(&zeta));
        let waited = async {
            world.until_depth("events", 4).await;
            world.add_worker().await;
        };
        futures_util::join!(http.send(&request), waited).0
    };
    let (ours, theirs) = futures_util::join!(ours, theirs);
    assert_eq!(theirs.status, 200, "{theirs:?}");
    assert!(ours.iter().all(|answer| answer.status == 200), "{ours:?}");
    // It was refused before its signature was used up, and there is room again.
    assert_eq!(http.send(&refused).await.status, 200);
}

#[tokio::test]
async fn beyond_all_requests_at_once_the_answer_is_overloaded_at_once() {
    let mut world = World::with().workers(0).set("CONNECT_MAX_IN_FLIGHT", "2").start().await;
    // Of two keys: requests of one key may share a message.
    let keys = [world.key.clone(), world.add_key(ALL_SCOPES).await];
    let http = Http::new(world.http().address());
    let waiting = join_all(keys.iter().map(async |key| http.send(&key.events(body(key))).await));
    let rest = async {
        world.until_depth("events", 2).await;
        // At once: the others wait for a worker, which comes after this.
        http.send(&world.key.events(body(&world.key))).await.assert_error(503, "overloaded");
        world.add_worker().await;
    };
    let (answers, ()) = futures_util::join!(waiting, rest);
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
}

#[tokio::test]
async fn callers_that_send_slowly_hold_up_nobody() {
    let world = World::with().set("CONNECT_MAX_IN_FLIGHT", "4").start().await;
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
async fn a_batch_of_megabytes_comes_through_whole() {
    let world = World::start().await;
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
    let answer = world.http().send(&world.key.events(body)).await;
    assert_eq!(answer.json()["accepted"], 100);
    let results = answer.json();
    let last = world.timeline(&results["results"][99]["clientId"]).await;
    assert_eq!(last[0]["payload"], json!({"n": 99, "text": text}));
}

#[tokio::test]
async fn a_caller_that_asks_before_it_sends_its_body_is_told_to_go_on() {
    let world = World::start().await;
    let request = world.key.events(body(&world.key));
    let mut connection = RawConnection::to(world.http().address()).await;
    let expect = format!("expect: 100-continue\r\ncontent-length: {}\r\n\r\n", request.body.len());
    connection.send([head(&request).as_slice(), expect.as_bytes()].concat()).await;
    connection.until("HTTP/1.1 100 Continue\r\n\r\n").await;
    connection.send(&request.body).await;
    assert_eq!(connection.answer().await.expect("an answer").status, 200);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_by_and_by() {
    let world = World::with().set("CONNECT_HEADER_TIMEOUT", "300ms").start().await;
    let mut connection = RawConnection::to(world.http().address()).await;
    connection.send("POST /api/v1/crm/connect/events HTTP/1.1\r\nhost: conn").await;
    // With or without an answer, but in time.
    connection.until_closed().await;
}

#[tokio::test]
async fn a_flood_of_unknown_keys_gets_no_further_and_a_known_one_passes() {
    let world = World::start().await;
    let (http, key) = (world.http(), &world.key);
    let flood = join_all((0..200).map(async |i| {
        let stranger = ApiKey { prefix: format!("ck_stranger{i}"), ..key.clone() };
        http.send(&stranger.events(body(key))).await.status
    }));
    let known = join_all((0..20).map(async |_| http.send(&key.events(body(key))).await.status));
    let (flood, known) = futures_util::join!(flood, known);
    assert!(flood.iter().all(|status| [401, 503].contains(status)), "{flood:?}");
    assert_eq!(known, [200; 20]);
}

#[tokio::test]
async fn a_caller_that_hangs_up_without_waiting_is_told_by_its_retry() {
    let world = World::start().await;
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
