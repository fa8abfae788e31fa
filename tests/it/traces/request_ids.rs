//! `X-Request-Id` on every response.

use super::{enquiry_submitted, request, request_id};
use crate::records::{post, records_target};
use serde_json::json;
use std::collections::HashSet;
use tests::raw::exchange;
use tests::{HttpRequest, World};
use uuid::Uuid;

#[tokio::test]
async fn every_response_has_a_request_id() {
    let mut world = World::with().set("CONNECT_MAX_BODY", "64KiB").start().await;
    let signed = |body: &str| world.key.events(body.to_owned());
    let unknown = records_target(&format!("/clients/{}", Uuid::now_v7()));
    let body = json!({"email": "ana@example.com", "name": "Ana"});
    let created = post(&world, "/clients", body.clone()).await;
    let mut responses = vec![(201, created), (409, post(&world, "/clients", body).await)];
    for (status, request) in [
        (200, request(&world, enquiry_submitted())),
        (400, signed("{}")),
        (401, HttpRequest::new("POST", tests::EVENTS, "{}")),
        (404, HttpRequest::new("GET", "/nothing/here", "")),
        (404, world.key.records("GET", &unknown, "")),
        (405, HttpRequest::new("PUT", tests::EVENTS, "")),
        (413, signed(&" ".repeat(65 << 10))),
    ] {
        responses.push((status, world.http().send(&request).await));
    }
    // Without a worker there is no reply.
    world.workers[0].kill();
    world.set("CONNECT_REPLY_TIMEOUT", "1s");
    world.restart_ingest().await;
    responses.push((503, world.http().send(&request(&world, enquiry_submitted())).await));
    let mut ids = HashSet::new();
    for (status, response) in &responses {
        assert_eq!(response.status, *status, "{response:?}");
        assert!(ids.insert(request_id(response)), "twice: {response:?}");
    }
}

#[tokio::test]
async fn the_request_id_is_the_stored_one_and_not_the_callers() {
    let world = World::shared().await;
    let own = Uuid::now_v7();
    let response =
        world.http().send(&request(&world, enquiry_submitted()).with("x-request-id", own.to_string())).await;
    assert_eq!(response.status, 200, "{response:?}");
    let id = request_id(&response);
    assert_ne!(id, own);
    let rows = world.database.rows("SELECT request_id::text AS id FROM event_ledger", &[]).await;
    assert_eq!(rows, [json!({"id": id.to_string()})]);
}

#[tokio::test]
async fn responses_of_the_http_library_have_no_request_id() {
    let world = World::shared().await;
    for (status, request) in [
        (400, "no http\r\n\r\n".to_owned()),
        (414, format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(65_534))),
        (431, format!("GET / HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(200))),
    ] {
        let response = exchange(world.http().address(), request).await;
        assert_eq!(response.status, status, "{response:?}");
        assert!(!response.head.to_lowercase().contains("x-request-id"), "{response:?}");
    }
}
