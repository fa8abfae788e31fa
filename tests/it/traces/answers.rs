//! `X-Request-Id`, on whatever is answered.

use super::{enquiry, request, request_id};
use crate::records::{at, post};
use serde_json::json;
use std::collections::HashSet;
use tests::raw::RawConnection;
use tests::{Outgoing, World};
use uuid::Uuid;

#[tokio::test]
async fn every_kind_of_answer_names_its_request() {
    let mut world = World::with().set("CONNECT_MAX_BODY", "64KiB").start().await;
    let signed = |body: &str| world.key.events(body.to_owned());
    let unknown = at(&format!("/clients/{}", Uuid::now_v7()));
    let body = json!({"email": "ana@example.com", "name": "Ana"});
    let created = post(&world, "/clients", body.clone()).await;
    let mut answers = vec![(201, created), (409, post(&world, "/clients", body).await)];
    for (status, request) in [
        (200, request(&world, enquiry())),
        (400, signed("{}")),
        (401, Outgoing::new("POST", tests::EVENTS, "{}")),
        (404, Outgoing::new("GET", "/nothing/here", "")),
        (404, world.key.records("GET", &unknown, "")),
        (405, Outgoing::new("PUT", tests::EVENTS, "")),
        (413, signed(&" ".repeat(65 << 10))),
    ] {
        answers.push((status, world.http().send(&request).await));
    }
    // Nobody answers any more.
    world.workers[0].kill();
    world.set("CONNECT_REPLY_TIMEOUT", "1s");
    world.restart_ingest().await;
    answers.push((503, world.http().send(&request(&world, enquiry())).await));
    let mut ids = HashSet::new();
    for (status, answer) in &answers {
        assert_eq!(answer.status, *status, "{answer:?}");
        assert!(ids.insert(request_id(answer)), "twice: {answer:?}");
    }
}

#[tokio::test]
async fn the_id_is_the_one_on_record_and_not_the_callers() {
    let world = World::start().await;
    let own = Uuid::now_v7();
    let answer = world.http().send(&request(&world, enquiry()).with("x-request-id", own.to_string())).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let id = request_id(&answer);
    assert_ne!(id, own);
    let rows = world.database.rows("SELECT request_id::text AS id FROM event_ledger", &[]).await;
    assert_eq!(rows, [json!({"id": id.to_string()})]);
}

#[tokio::test]
async fn what_the_http_library_refuses_by_itself_has_no_id() {
    let world = World::with().workers(0).start().await;
    for (status, request) in [
        (400, "no http\r\n\r\n".to_owned()),
        (414, format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(65_534))),
        (431, format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200))),
    ] {
        let mut connection = RawConnection::to(world.http().address()).await;
        connection.send(request).await;
        let answer = connection.answer().await.expect("an answer");
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(!answer.head.to_lowercase().contains("x-request-id"), "{answer:?}");
    }
}
