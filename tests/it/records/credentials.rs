//! Credentials and `v2` signatures on the ten records routes, credentials on the events route: the header-level 401 and
//! 403 (specification: Authentication, Errors, Scopes; D1, D3). `auth` has what only the events route has.

use super::routes::{Route, events_route, every_route, every_write};
use super::{joined_with_lead, new_lead, patch_request, post_request, record, records_target, send_at_once};
use crate::auth::assert_refused;
use serde_json::{Value, json};
use tests::raw::{exchange, head};
use tests::{ApiKey, HttpRequest, World, now, until_equal};

const HEADERS: [&str; 3] = ["x-connect-key", "x-connect-tenant", "x-connect-signature"];

/// The number of clients and leads, and the newest versions.
async fn written(world: &World) -> Vec<Value> {
    let query = "SELECT (SELECT count(*) FROM clients) AS clients, (SELECT count(*) FROM leads) AS leads,
                        (SELECT max(updated_at) FROM clients) AS client, (SELECT max(updated_at) FROM trips) AS trip,
                        (SELECT max(updated_at) FROM leads) AS lead";
    world.database.rows(query, &[]).await
}

fn all_routes(lead: &Value) -> Vec<Route> {
    every_route(lead).into_iter().chain([events_route()]).collect()
}

/// Requests like `right` with rejected credentials, each with its fault.
fn invalid_requests(world: &World, route: &Route, right: &HttpRequest) -> Vec<(&'static str, HttpRequest)> {
    let signature = right.header("x-connect-signature");
    let put = |header: &str, value: &str| right.clone().replacing(header, value);
    let relabelled = |request: HttpRequest, from: &str, to: &str| {
        let signature = request.header("x-connect-signature").replace(from, to);
        request.replacing("x-connect-signature", signature)
    };
    let retargeted = |target: String| HttpRequest { target, ..right.clone() };
    let with_secret = |secret: &str| ApiKey { secret: secret.to_owned(), ..world.key.clone() };
    let (own, other) = if route.is_events() { ("v1=", "v2=") } else { ("v2=", "v1=") };
    let otherwise = route.signed_otherwise(&world.key);
    let (t, rest) = signature[2..].split_once(',').expect("t=<seconds>,..");
    let later = t.parse::<i64>().expect("a number") + 1;
    let mut invalid_requests = vec![
        ("the other scheme", otherwise.clone()),
        ("the other scheme under the name of the right one", relabelled(otherwise, other, own)),
        ("the right scheme under the name of the other one", relabelled(right.clone(), own, other)),
        ("both schemes", put("x-connect-signature", &format!("{signature},{other}{}", "0".repeat(64)))),
        ("another time", put("x-connect-signature", &format!("t={later},{rest}"))),
        ("no signature", put("x-connect-signature", "")),
        ("signed long ago", route.signed_at(now() - 310, &world.key)),
        ("signed in the future", route.signed_at(now() + 310, &world.key)),
        ("another secret", route.signed(&with_secret("another"))),
        ("the visible prefix as the secret", route.signed(&with_secret(&world.key.prefix))),
        ("an unknown key", put("x-connect-key", "ck_unknown")),
        ("no tenant", put("x-connect-tenant", " ")),
        ("another body", right.clone().with_body(format!("{} ", route.body))),
        ("no body", right.clone().with_body(if route.body.is_empty() { "{}" } else { "" })),
        ("no header", HEADERS.iter().fold(right.clone(), |request, header| request.without(header))),
    ];
    if !route.is_events() {
        invalid_requests.push(("another query", retargeted(format!("{}?x=1", right.target))));
        let method = other_method(route).to_owned();
        invalid_requests.push(("another method", HttpRequest { method, ..right.clone() }));
    }
    for header in HEADERS {
        invalid_requests.push((header, right.clone().without(header)));
        for second in [right.header(header).as_str(), "other"] {
            invalid_requests.push((header, right.clone().with(header, second)));
        }
    }
    invalid_requests
}

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
    let (world, lead) = joined_with_lead().await;
    for route in all_routes(&lead) {
        let (before, right) = (written(&world).await, route.signed(&world.key));
        for (why, request) in invalid_requests(&world, &route, &right) {
            let why = format!("{} {}: {why}", route.method, route.path);
            assert_refused(401, &world.http().send(&request).await, &why);
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
    for route in all_routes(&lead) {
        let right = route.signed(&world.key);
        let name = format!(" {} ", world.key.tenant.to_uppercase());
        // The second time, the signature has been used up, which is checked later.
        for status in [route.success(), 401] {
            for tenant in ["zeta", "nobody", "acme2"] {
                let elsewhere = right.clone().replacing("x-connect-tenant", tests::slug(tenant));
                assert_refused(403, &world.http().send(&elsewhere).await, &format!("{route:?} of {tenant}"));
            }
            let again = right.clone().replacing("x-connect-tenant", &name);
            let sent = if status == 401 { again.replacing("idempotency-key", "another") } else { again };
            let response = world.http().send(&sent).await;
            assert_eq!(response.status, status, "{route:?}: {response:?}");
        }
    }
}

#[tokio::test]
async fn every_route_uses_up_the_signature_even_when_it_refuses() {
    let (world, lead) = joined_with_lead().await;
    for route in all_routes(&lead) {
        let request = route.signed(&world.key);
        assert_eq!(world.http().send(&request).await.status, route.success(), "{route:?}");
        let again = request.clone().replacing("idempotency-key", "another");
        assert_refused(401, &world.http().send(&again).await, &format!("{route:?} again"));
    }
    for route in every_write(&lead).into_iter().chain([events_route()]) {
        let invalid = Route { body: "{".to_owned(), ..route };
        let request = invalid.signed(&world.key);
        world.http().send(&request).await.assert_error(400, "invalid_request");
        let again = request.replacing("idempotency-key", "another");
        assert_refused(401, &world.http().send(&again).await, &format!("{invalid:?} again"));
    }
}

#[tokio::test]
async fn credentials_and_scopes_are_checked_before_idempotency_key_condition_and_body() {
    let (world, lead) = joined_with_lead().await;
    let reader = world.add_key("clients:read,leads:read").await;
    for route in every_write(&lead).into_iter().chain([events_route()]) {
        let wrong = |request: HttpRequest| request.without("idempotency-key").with("if-match", "?");
        let invalid = Route { body: "{".to_owned(), ..route };
        let right = wrong(invalid.signed(&reader));
        let elsewhere = |request: HttpRequest| request.replacing("x-connect-tenant", "zeta");
        for (why, request, status) in [
            ("stale", elsewhere(wrong(invalid.signed_at(1, &reader))), 401),
            ("another body", elsewhere(right.clone()).with_body("{}"), 401),
            ("an unknown key", elsewhere(right.clone()).replacing("x-connect-key", "ck_no"), 401),
            ("without the scope", right, 403),
            ("of another tenant", elsewhere(wrong(invalid.signed(&world.key))), 403),
        ] {
            assert_refused(status, &world.http().send(&request).await, &format!("{why}: {invalid:?}"));
        }
        assert_eq!(world.http().send(&wrong(invalid.signed(&world.key))).await.status, 400);
    }
}

#[tokio::test]
async fn a_revoked_or_expired_key_gets_401_on_every_route() {
    let (world, lead) = joined_with_lead().await;
    let revoked = world.add_key(tests::ALL_SCOPES).await;
    for route in all_routes(&lead) {
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
        for route in all_routes(&lead) {
            assert_refused(401, &world.http().send(&route.signed(&key)).await, &format!("{route:?}"));
        }
    }
}

#[tokio::test]
async fn an_error_response_uses_up_the_signature() {
    let world = World::shared().await;
    let unknown = "/clients/0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
    for request in [
        world.key.records("GET", &records_target("/clients"), ""),
        world.key.records("GET", &records_target(unknown), ""),
        patch_request(&world.key, unknown, &json!({"name": "Bo"})),
        patch_request(&world.key, unknown, &json!({"name": null})),
    ] {
        let status = world.http().send(&request).await.status;
        assert!(status == 400 || status == 404, "{status}");
        assert_refused(401, &world.http().send(&request).await, "used before");
    }
}

#[tokio::test]
async fn a_replayed_post_gets_its_response_with_its_key_and_401_with_another() {
    let world = World::shared().await;
    let request = post_request(&world.key, "/clients", "k-1", &json!({"email": "ana@example.com"}));
    let first = world.http().send(&request).await;
    record(&first, 201);
    for http in world.all_http() {
        let again = http.send(&request).await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (201, "true"));
        assert_eq!(again.body, first.body);
        let other_key = request.clone().replacing("idempotency-key", "k-2");
        assert_refused(401, &http.send(&other_key).await, "used before");
        assert_refused(401, &http.send(&request.clone().without("idempotency-key")).await, "used before");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
}

#[tokio::test]
async fn one_idempotency_key_succeeds_for_concurrent_copies_of_one_signature() {
    let world = World::shared().await;
    let signed = world.key.records("POST", &records_target("/leads"), r#"{"contact":{"email":"ana@example.com"}}"#);
    let requests: Vec<_> = (0..20).map(|i| signed.clone().with("idempotency-key", format!("k-{}", i % 5))).collect();
    let responses = send_at_once(&world, &requests).await;
    let passed = responses.iter().filter(|response| response.status == 201).count();
    assert_eq!(passed, 4, "those of one key");
    for refused in responses.iter().filter(|response| response.status != 201) {
        assert_refused(401, refused, "of another key");
    }
    assert_eq!(world.pipeline(&[]).await.len(), 1);
}

/// Sends a request with its target exactly as given.
async fn send_as_is(world: &World, request: &HttpRequest) -> u16 {
    exchange(world.http().address(), [head(request).as_slice(), b"\r\n"].concat()).await.status
}

#[tokio::test]
async fn a_query_is_verified_byte_for_byte() {
    let world = World::shared().await;
    // The spellings of a row are equivalent.
    for (route, status, spellings) in [
        (
            "/clients",
            200,
            &[
                "?email=a%40b.co&x=1", "?email=a@b.co&x=1", "?x=1&email=a%40b.co", "?email=%61%40b.co&x=1",
                "?email=a%40b.co&x=1&", "?&email=a%40b.co&x=1", "?email=a%40b.co&x", "?email=a%40b.co",
                "?e%6dail=a%40b.co",
            ][..],
        ),
        ("/leads", 200, &["?externalId=a+b", "?externalId=a%20b", "?externalId=a%20b&externalID=c"]),
        ("/leads", 200, &["?externalId=%C3%A9", "?externalId=%c3%a9"]),
        ("/clients", 400, &["", "?", "??", "?&"]),
        ("/clients/0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e", 404, &["", "?", "?x"]),
    ] {
        for sent in spellings {
            let request = world.key.records("GET", &records_target(&format!("{route}{sent}")), "");
            for signed in spellings.iter().filter(|signed| *signed != sent) {
                let other = world.key.records("GET", &records_target(&format!("{route}{signed}")), "");
                let other = HttpRequest { target: request.target.clone(), ..other };
                assert_eq!(send_as_is(&world, &other).await, 401, "{route}: signed {signed}, sent {sent}");
            }
            assert_eq!(send_as_is(&world, &request).await, status, "{route}{sent}");
        }
    }
}
