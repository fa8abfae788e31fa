//! A signature can be used once (specification: Authentication, 3; D1, D2).

use super::{assert_forbidden, assert_unauthorized, valid};
use futures_util::future::join_all;
use serde_json::json;
use tests::event::batch;
use tests::{World, event, until_equal};

#[tokio::test]
async fn accepts_hex_of_any_case_and_rejects_its_replay_in_another() {
    let world = World::shared().await;
    let request = world.key.events(valid());
    let header = request.header("x-connect-signature");
    let (t, mac) = header.split_once(",v1=").expect("t=..,v1=..");
    let respelled = |mac: &str| request.clone().replacing("x-connect-signature", format!("{t},v1={mac}"));
    assert_eq!(world.http().send(&respelled(&mac.to_uppercase())).await.status, 200);
    let mixed: String =
        mac.chars().enumerate().map(|(i, c)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
    for mac in [mac, &mixed] {
        assert_unauthorized(&world.http().send(&respelled(mac)).await, mac);
    }
}

#[tokio::test]
async fn accepts_exactly_one_of_twenty_identical_concurrent_requests() {
    let world = World::shared().await;
    let request = world.key.events(valid());
    let clients = world.all_http().into_iter().cycle().take(20);
    let responses = join_all(clients.map(|http| http.send(&request))).await;
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1);
    for refused in responses.iter().filter(|response| response.status != 200) {
        assert_unauthorized(refused, "one of nineteen");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 1);
}

#[tokio::test]
async fn a_restarted_ingest_rejects_signatures_used_before() {
    let mut world = World::start().await;
    let request = world.key.events(valid());
    assert_eq!(world.http().send(&request).await.status, 200);
    world.ingests.clear();
    world.add_ingest().await;
    assert_unauthorized(&world.http().send(&request).await, "used before the restart");
}

#[tokio::test]
async fn accepts_a_signature_of_any_fresh_timestamp_once() {
    let world = World::shared().await;
    for ahead in (-290..=290).step_by(29) {
        let request = world.key.events_at(tests::now() + ahead, valid());
        assert_eq!(world.http().send(&request).await.status, 200, "{ahead} s");
        assert_unauthorized(&world.http().send(&request).await, &format!("{ahead} s, again"));
    }
}

#[tokio::test]
async fn a_missing_scope_does_not_use_up_the_signature() {
    let world = World::shared().await;
    let key = world.add_key("clients:read,clients:write,leads:read,leads:write,credit:write").await;
    let request = key.events(valid());
    assert_forbidden(&world.http().send(&request).await, "no scope");
    world.connectctl.json(&["key", "scopes", &key.prefix, "--set", "events:ingest"]).await;
    until_equal("the scope counts", 200, async || world.http().send(&request).await.status).await;
}

#[tokio::test]
async fn another_key_or_second_makes_another_signature_of_the_same_body() {
    let world = World::shared().await;
    let second = world.add_key("events:ingest").await;
    let zeta = world.add_tenant("zeta").await;
    let t = tests::now();
    let body = batch(&[event("contact.identified").id("e-1").email("ana@example.com")]);
    let statuses = |response: tests::HttpResponse| response.json()["results"][0]["status"].clone();
    assert_eq!(statuses(world.http().send(&world.key.events_at(t, body.clone())).await), json!("accepted"));
    assert_eq!(statuses(world.http().send(&second.events_at(t, body.clone())).await), json!("duplicate"));
    assert_eq!(
        statuses(world.http().send(&world.key.events_at(t - 1, body.clone())).await),
        json!("duplicate")
    );
    assert_tenant_refused(&world, &zeta.events_at(t, body)).await;
}

/// The envelope names another tenant: the body is at fault, not the signature.
async fn assert_tenant_refused(world: &World, request: &tests::HttpRequest) {
    let message = world.http().send(request).await.assert_error(400, "invalid_request");
    assert!(message.contains("events[0].tenant"), "{message}");
}

#[tokio::test]
async fn stores_for_the_keys_tenant_whatever_the_case_of_the_header() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let body = batch(&[event("contact.identified")
        .tenant(&format!(" {} ", zeta.tenant.to_uppercase()))
        .email("ana@example.com")]);
    let header = format!(" {}  ", zeta.tenant.to_uppercase());
    let request = zeta.events(body).replacing("x-connect-tenant", header);
    assert_eq!(world.http().send(&request).await.status, 200);
    let slugs = world.database.rows("SELECT slug FROM clients JOIN tenants USING (tenant_id)", &[]).await;
    assert_eq!(slugs, [json!({"slug": zeta.tenant})]);
}
