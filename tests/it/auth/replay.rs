//! A signature is used once (specification: Authentication, 3; D1, D2).

use super::{assert_forbidden, assert_unauthorized, valid};
use futures_util::future::join_all;
use serde_json::json;
use tests::event::batch;
use tests::{PATIENCE, World, event, eventually};

#[tokio::test]
async fn the_same_signature_is_refused_the_second_time() {
    let world = World::start().await;
    let request = world.key.events(valid());
    assert_eq!(world.http().send(&request).await.status, 200);
    for _ in 0..2 {
        assert_unauthorized(&world.http().send(&request).await, "again");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 1);
}

#[tokio::test]
async fn another_case_of_hex_is_no_new_signature() {
    let world = World::start().await;
    let request = world.key.events(valid());
    let header = request.header("x-connect-signature");
    let (t, mac) = header.split_once(",v1=").expect("t=..,v1=..");
    assert_eq!(world.http().send(&request).await.status, 200);
    let mixed: String =
        mac.chars().enumerate().map(|(i, c)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
    for mac in [mac.to_uppercase(), mixed] {
        let respelled = request.clone().replacing("x-connect-signature", format!("{t},v1={mac}"));
        assert_unauthorized(&world.http().send(&respelled).await, &mac);
    }
}

#[tokio::test]
async fn of_twenty_identical_requests_at_once_exactly_one_is_taken() {
    let world = World::with().ingests(2).start().await;
    let request = world.key.events(valid());
    let clients = world.ingests.iter().map(tests::Program::http).cycle().take(20);
    let answers = join_all(clients.map(|http| http.send(&request))).await;
    assert_eq!(answers.iter().filter(|answer| answer.status == 200).count(), 1);
    for refused in answers.iter().filter(|answer| answer.status != 200) {
        assert_unauthorized(refused, "one of nineteen");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 1);
}

#[tokio::test]
async fn another_ingest_knows_what_one_has_seen() {
    let world = World::with().ingests(2).start().await;
    let request = world.key.events(valid());
    assert_eq!(world.ingests[0].http().send(&request).await.status, 200);
    assert_unauthorized(&world.ingests[1].http().send(&request).await, "seen by the other");
}

#[tokio::test]
async fn a_restarted_ingest_still_knows_what_was_used() {
    let mut world = World::start().await;
    let request = world.key.events(valid());
    assert_eq!(world.http().send(&request).await.status, 200);
    world.ingests.clear();
    world.add_ingest().await;
    assert_unauthorized(&world.http().send(&request).await, "used before the restart");
}

#[tokio::test]
async fn a_signature_of_any_fresh_moment_is_taken_once() {
    let world = World::start().await;
    for ahead in (-290..=290).step_by(29) {
        let request = world.key.events_at(tests::now() + ahead, valid());
        assert_eq!(world.http().send(&request).await.status, 200, "{ahead} s");
        assert_unauthorized(&world.http().send(&request).await, &format!("{ahead} s, again"));
    }
}

#[tokio::test]
async fn a_mac_that_failed_does_not_use_the_signature_up() {
    let world = World::start().await;
    let request = world.key.events(valid());
    let tampered = request.clone().with_body(r#"{"events":[{}]}"#);
    assert_unauthorized(&world.http().send(&tampered).await, "another body");
    assert_eq!(world.http().send(&request).await.status, 200);
}

#[tokio::test]
async fn a_refused_tenant_does_not_use_the_signature_up() {
    let world = World::start().await;
    let request = world.key.events(valid());
    let elsewhere = request.clone().replacing("x-connect-tenant", "zeta");
    assert_forbidden(&world.http().send(&elsewhere).await, "another tenant");
    assert_eq!(world.http().send(&request).await.status, 200);
}

#[tokio::test]
async fn a_missing_scope_does_not_use_the_signature_up() {
    let world = World::start().await;
    let key = world.add_key("clients:read").await;
    let request = key.events(valid());
    assert_forbidden(&world.http().send(&request).await, "no scope");
    world.connectctl.json(&["key", "scopes", &key.prefix, "--set", "events:ingest"]).await;
    eventually("the scope counts", PATIENCE, async || match world.http().send(&request).await.status {
        200 => Ok(()),
        status => Err(status.to_string()),
    })
    .await;
}

#[tokio::test]
async fn the_same_body_signed_by_another_key_or_at_another_second_is_another_signature() {
    let world = World::start().await;
    let second = world.add_key("events:ingest").await;
    let zeta = world.add_tenant("zeta").await;
    let t = tests::now();
    let body = batch(&[event("contact.identified").id("e-1").email("ana@example.com")]);
    let statuses = |answer: tests::Answer| answer.json()["results"][0]["status"].clone();
    assert_eq!(statuses(world.http().send(&world.key.events_at(t, body.clone())).await), json!("accepted"));
    assert_eq!(statuses(world.http().send(&second.events_at(t, body.clone())).await), json!("duplicate"));
    assert_eq!(
        statuses(world.http().send(&world.key.events_at(t - 1, body.clone())).await),
        json!("duplicate")
    );
    zeta_refuses(&world, &zeta.events_at(t, body)).await;
}

/// The envelope names another agency: a fault of the body, not of the signature.
async fn zeta_refuses(world: &World, request: &tests::Outgoing) {
    let message = world.http().send(request).await.assert_error(400, "invalid_request");
    assert!(message.contains("events[0].tenant"), "{message}");
}
