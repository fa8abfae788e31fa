//! Credentials on all ten routes: the header-level 401 and 403 (specification: Errors, Scopes; D1).

use super::new_lead;
use super::routes::{Route, every_route, every_write};
use serde_json::{Value, json};
use tests::{ApiKey, HttpRequest, HttpResponse, World, now, until_equal};

#[track_caller]
fn assert_refused(response: &HttpResponse, status: u16, why: &str) {
    let code = if status == 401 { "unauthorized" } else { "forbidden" };
    assert_eq!(response.status, status, "{why}: {response:?}");
    assert_eq!(response.assert_error(status, code), "Invalid Connect credentials", "{why}");
}

/// The number of clients and leads, and the newest versions.
async fn written(world: &World) -> Vec<Value> {
    let query = "SELECT (SELECT count(*) FROM clients) AS clients, (SELECT count(*) FROM leads) AS leads,
                        (SELECT max(updated_at) FROM clients) AS client, (SELECT max(updated_at) FROM trips) AS trip,
                        (SELECT max(updated_at) FROM leads) AS lead";
    world.database.rows(query, &[]).await
}

/// Requests like `right` with rejected credentials, each with its fault.
fn invalid_requests(world: &World, route: &Route, right: &HttpRequest) -> Vec<(String, HttpRequest)> {
    let signature = right.header("x-connect-signature");
    let put = |header: &str, value: &str| right.clone().replacing(header, value);
    let relabelled = |request: HttpRequest, from: &str, to: &str| {
        let signature = request.header("x-connect-signature").replace(from, to);
        request.replacing("x-connect-signature", signature)
    };
    let retargeted = |target: String| HttpRequest { target, ..right.clone() };
    let stranger = ApiKey { secret: "another".to_owned(), ..world.key.clone() };
    let invalid_requests = [
        ("a v1 signature", route.signed_v1(&world.key)),
        ("a v1 signature that says v2", relabelled(route.signed_v1(&world.key), "v1=", "v2=")),
        ("a v2 signature that says v1", relabelled(right.clone(), "v2=", "v1=")),
        ("both schemes", put("x-connect-signature", &format!("{signature},v1={}", "0".repeat(64)))),
        ("no signature", put("x-connect-signature", "")),
        ("signed long ago", route.signed_at(now() - 310, &world.key)),
        ("signed in the future", route.signed_at(now() + 310, &world.key)),
        ("another secret", route.signed(&stranger)),
        ("an unknown key", put("x-connect-key", "ck_unknown")),
        ("no tenant", put("x-connect-tenant", " ")),
        ("another body", right.clone().with_body(format!("{} ", route.body))),
        ("another query", retargeted(format!("{}?x=1", right.target))),
        ("another method", HttpRequest { method: other_method(route).to_owned(), ..right.clone() }),
    ];
    let mut invalid_requests: Vec<_> =
        invalid_requests.into_iter().map(|(why, request)| (why.to_owned(), request)).collect();
    for header in ["x-connect-key", "x-connect-tenant", "x-connect-signature"] {
        let twice = right.clone().with(header, right.header(header));
        invalid_requests.push((format!("{header} twice"), twice));
        invalid_requests.push((format!("without {header}"), right.clone().without(header)));
    }
    invalid_requests
}

/// The other method that the route takes.
fn other_method(route: &Route) -> &'static str {
    let is_list = route.path.starts_with("/clients?") || route.path.starts_with("/leads?");
    match route.method {
        "GET" if is_list => "POST",
        "GET" => "PATCH",
        _ => "GET",
    }
}

#[tokio::test]
async fn invalid_credentials_get_401_on_every_route_and_use_up_nothing() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    for route in every_route(&lead) {
        let (before, right) = (written(&world).await, route.signed(&world.key));
        for (why, request) in invalid_requests(&world, &route, &right) {
            let why = format!("{} {}: {why}", route.method, route.path);
            assert_refused(&world.http().send(&request).await, 401, &why);
        }
        assert_eq!(written(&world).await, before, "{route:?}");
        let passed = world.http().send(&right).await;
        assert_eq!(passed.status, route.success(), "{route:?}: {passed:?}");
    }
}

#[tokio::test]
async fn another_tenant_in_the_header_gets_403_on_every_route_and_uses_up_nothing() {
    let world = World::shared().await;
    world.add_tenant("zeta").await;
    let lead = new_lead(&world, json!({})).await;
    for route in every_route(&lead) {
        let right = route.signed(&world.key);
        for tenant in ["zeta", "nobody"] {
            let elsewhere = right.clone().replacing("x-connect-tenant", tests::slug(tenant));
            assert_refused(&world.http().send(&elsewhere).await, 403, &format!("{route:?} of {tenant}"));
        }
        let passed = world
            .http()
            .send(&right.replacing("x-connect-tenant", format!(" {} ", world.key.tenant.to_uppercase())))
            .await;
        assert_eq!(passed.status, route.success(), "{route:?}: {passed:?}");
    }
}

#[tokio::test]
async fn every_route_uses_up_the_signature_even_when_it_refuses() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    for route in every_route(&lead) {
        let request = route.signed(&world.key);
        assert_eq!(world.http().send(&request).await.status, route.success(), "{route:?}");
        let again = request.clone().replacing("idempotency-key", "another");
        assert_refused(&world.http().send(&again).await, 401, &format!("{route:?} again"));
    }
    for route in every_write(&lead) {
        let invalid = Route { body: "{".to_owned(), ..route };
        let request = invalid.signed(&world.key);
        world.http().send(&request).await.assert_error(400, "invalid_request");
        let again = request.replacing("idempotency-key", "another");
        assert_refused(&world.http().send(&again).await, 401, &format!("{invalid:?} again"));
    }
}

#[tokio::test]
async fn credentials_and_scopes_are_checked_before_idempotency_key_condition_and_body() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let reader = world.add_key("clients:read,leads:read").await;
    for route in every_write(&lead) {
        let wrong = |request: HttpRequest| request.without("idempotency-key").with("if-match", "?");
        let invalid = Route { body: "{".to_owned(), ..route };
        let stale = wrong(invalid.signed_at(1, &reader)).replacing("x-connect-tenant", "zeta");
        assert_refused(&world.http().send(&stale).await, 401, &format!("stale {invalid:?}"));
        assert_refused(
            &world.http().send(&wrong(invalid.signed(&reader))).await,
            403,
            &format!("{invalid:?}"),
        );
        assert_eq!(world.http().send(&wrong(invalid.signed(&world.key))).await.status, 400);
    }
}

#[tokio::test]
async fn a_revoked_or_expired_key_gets_401_on_every_route() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let revoked = world.add_key(tests::ALL_SCOPES).await;
    for route in every_route(&lead) {
        assert_eq!(world.http().send(&route.signed(&revoked)).await.status, route.success(), "{route:?}");
    }
    world.connectctl.json(&["key", "revoke", &revoked.prefix]).await;
    let brief = ["key", "create", "--tenant", "acme", "--name", "brief", "--scopes", tests::ALL_SCOPES];
    let brief = world.connectctl.json(&[&brief[..], &["--expires-in", "1s"]].concat()).await;
    for key in [revoked, ApiKey::of("acme", &brief)] {
        until_equal("the key has ended", 401, async || {
            world.http().send(&every_route(&lead)[0].signed(&key)).await.status
        })
        .await;
        for route in every_route(&lead) {
            assert_refused(&world.http().send(&route.signed(&key)).await, 401, &format!("{route:?}"));
        }
    }
}
