//! `v2` signatures (specification: Authentication; D1, D3).

use super::{at, client_route, new_client, patch_of, post_of, record};
use futures_util::future::join_all;
use serde_json::json;
use tests::{Answer, World, now};

#[track_caller]
fn assert_unauthorized(answer: &Answer) {
    assert_eq!(answer.assert_error(401, "unauthorized"), "Invalid Connect credentials");
}

#[tokio::test]
async fn a_v1_signature_is_refused_on_every_method() {
    let world = World::start().await;
    let client = new_client(&world, json!({"email": "ana@example.com"})).await;
    let body = r#"{"email":"bo@example.com"}"#;
    for (method, route, body) in [
        ("GET", client_route(&client), ""),
        ("GET", "/clients?phone=1".to_owned(), ""),
        ("POST", "/clients".to_owned(), body),
        ("POST", "/leads".to_owned(), body),
        ("PATCH", client_route(&client), body),
    ] {
        let mut request = world.key.events(body).with("idempotency-key", "k-1");
        request.method = method.to_owned();
        request.target = at(&route);
        assert_unauthorized(&world.http().send(&request).await);
        let relabelled = request.header("x-connect-signature").replace("v1=", "v2=");
        let relabelled = request.replacing("x-connect-signature", relabelled);
        assert_unauthorized(&world.http().send(&relabelled).await);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn a_v2_signature_is_refused_on_the_events_route() {
    let world = World::start().await;
    let body = tests::event::batch(&[tests::event("contact.identified").email("ana@example.com")]);
    let request = world.key.records("POST", tests::EVENTS, body);
    assert_unauthorized(&world.http().send(&request).await);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
}

#[tokio::test]
async fn method_path_query_and_body_are_signed_exactly_as_sent() {
    let world = World::start().await;
    let client = new_client(&world, json!({"email": "ana@example.com"})).await;
    let signed = world.key.records("GET", &at("/clients?email=ana%40example.com&phone=1"), "");
    for target in [
        "/clients?email=ana@example.com&phone=1",
        "/clients?phone=1&email=ana%40example.com",
        "/clients?email=ana%40example.com",
        "/clients?email=ana%40example.com&phone=1&",
        "/clients",
    ] {
        let mut changed = signed.clone();
        changed.target = at(target);
        assert_unauthorized(&world.http().send(&changed).await);
    }
    // None of these used the signature up.
    assert_eq!(super::data(&world.http().send(&signed).await, 200), json!([client]));
    let change = patch_of(&world.key, &client_route(&client), &json!({"name": "Bo"}));
    let mut other_method = change.clone();
    other_method.method = "GET".to_owned();
    assert_unauthorized(&world.http().send(&other_method).await);
    assert_unauthorized(&world.http().send(&change.clone().with_body(r#"{"name": "Bo"}"#)).await);
    assert_eq!(record(&world.http().send(&change).await, 200)["name"], "Bo");
}

#[tokio::test]
async fn a_signature_is_used_once_on_get_and_patch() {
    let world = World::start().await;
    let client = new_client(&world, json!({"email": "ana@example.com"})).await;
    let read = world.key.records("GET", &at(&client_route(&client)), "");
    let change = patch_of(&world.key, &client_route(&client), &json!({"name": "Bo"}));
    for request in [read, change] {
        assert_eq!(world.http().send(&request).await.status, 200);
        assert_unauthorized(&world.http().send(&request).await);
        // A key of idempotency makes no difference there.
        assert_unauthorized(&world.http().send(&request.with("idempotency-key", "k-1")).await);
    }
}

#[tokio::test]
async fn a_signature_counts_as_used_after_a_refusal_of_the_request() {
    let world = World::start().await;
    let unknown = "/clients/0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
    for request in [
        world.key.records("GET", &at("/clients"), ""),
        world.key.records("GET", &at(unknown), ""),
        patch_of(&world.key, unknown, &json!({"name": "Bo"})),
        patch_of(&world.key, unknown, &json!({"name": null})),
    ] {
        let status = world.http().send(&request).await.status;
        assert!(status == 400 || status == 404, "{status}");
        assert_unauthorized(&world.http().send(&request).await);
    }
}

#[tokio::test]
async fn a_signed_post_is_a_replay_with_its_key_and_refused_with_another() {
    let world = World::with().ingests(2).start().await;
    let request = post_of(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    let first = world.http().send(&request).await;
    record(&first, 201);
    for ingest in &world.ingests {
        let again = ingest.http().send(&request).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
        assert_eq!(again.body, first.body);
        let other_key = request.clone().replacing("idempotency-key", "k-2");
        assert_unauthorized(&ingest.http().send(&other_key).await);
        assert_unauthorized(&ingest.http().send(&request.clone().without("idempotency-key")).await);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn a_post_that_came_without_a_key_cannot_be_sent_again_with_one() {
    let world = World::start().await;
    let request = world.key.records("POST", &at("/clients"), r#"{"email":"ana@example.com"}"#);
    world.http().send(&request).await.assert_error(400, "idempotency_key_required");
    assert_unauthorized(&world.http().send(&request.with("idempotency-key", "k-1")).await);
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
}

#[tokio::test]
async fn of_one_signature_at_once_with_different_keys_one_key_passes() {
    let world = World::with().ingests(2).start().await;
    let signed = world.key.records("POST", &at("/leads"), r#"{"contact":{"email":"ana@example.com"}}"#);
    let requests: Vec<_> =
        (0..20).map(|i| signed.clone().with("idempotency-key", format!("k-{}", i % 5))).collect();
    let ingests = world.ingests.iter().map(tests::Program::http).cycle();
    let answers = join_all(requests.iter().zip(ingests).map(|(request, http)| http.send(request))).await;
    let passed = answers.iter().filter(|answer| answer.status == 201).count();
    assert_eq!(passed, 4, "those of one key");
    answers.iter().filter(|answer| answer.status != 201).for_each(assert_unauthorized);
    assert_eq!(world.pipeline(&[]).await.len(), 1);
}

#[tokio::test]
async fn a_stale_time_and_a_missing_header_are_refused() {
    let world = World::start().await;
    let target = at("/clients?phone=1");
    for age in [310, -310] {
        let request = world.key.records_at(now() - age, "GET", &target, "");
        assert_unauthorized(&world.http().send(&request).await);
    }
    for header in ["x-connect-key", "x-connect-tenant", "x-connect-signature"] {
        let request = world.key.records("GET", &target, "").without(header);
        assert_unauthorized(&world.http().send(&request).await);
    }
    let early = world.key.records_at(now() - 290, "GET", &target, "");
    assert_eq!(world.http().send(&early).await.status, 200);
}
