//! Each route needs one scope (specification: Scopes).

use super::{at, client_route, lead_route, new_lead, trip_route};
use serde_json::json;
use tests::{ALL_SCOPES, World};

#[tokio::test]
async fn every_route_passes_with_its_scope_and_is_forbidden_with_all_others() {
    let world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    let routes = [
        ("POST", "/clients".to_owned(), "clients:write"),
        ("GET", "/clients?phone=1".to_owned(), "clients:read"),
        ("GET", client.clone(), "clients:read"),
        ("PATCH", client, "clients:write"),
        ("POST", "/leads".to_owned(), "leads:write"),
        ("GET", "/leads?externalId=x".to_owned(), "leads:read"),
        ("GET", lead_route(&lead), "leads:read"),
        ("PATCH", lead_route(&lead), "leads:write"),
        ("GET", trip_route(&lead), "leads:read"),
        ("PATCH", trip_route(&lead), "leads:write"),
    ];
    for scope in ["clients:read", "clients:write", "leads:read", "leads:write"] {
        let others: Vec<_> = ALL_SCOPES.split(',').filter(|other| *other != scope).collect();
        let (with, without) = (world.add_key(scope).await, world.add_key(&others.join(",")).await);
        for (method, route, _) in routes.iter().filter(|(.., needed)| *needed == scope) {
            let body = match (*method, route.as_str()) {
                ("GET", _) => String::new(),
                ("POST", "/clients") => json!({"phone": "77"}).to_string(),
                ("POST", _) => json!({"clientId": lead["clientId"]}).to_string(),
                _ => "{}".to_owned(),
            };
            let request = |key: &tests::ApiKey| {
                key.records(method, &at(route), body.clone()).with("idempotency-key", "k")
            };
            let forbidden = world.http().send(&request(&without)).await;
            let message = forbidden.assert_error(403, "forbidden");
            assert_eq!(message, "Invalid Connect credentials", "{method} {route}");
            let passed = world.http().send(&request(&with)).await;
            let expected = if *method == "POST" { 201 } else { 200 };
            assert_eq!(passed.status, expected, "{method} {route}: {passed:?}");
        }
    }
}

#[tokio::test]
async fn another_tenant_in_the_header_is_forbidden() {
    let world = World::start().await;
    world.add_tenant("zeta").await;
    for method in ["GET", "PATCH"] {
        let route = at("/clients/0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e");
        let request = world.key.records(method, &route, "").replacing("x-connect-tenant", "zeta");
        world.http().send(&request).await.assert_error(403, "forbidden");
    }
    let spelled = world.key.records("GET", &at("/clients?phone=1"), "");
    let spelled = spelled.replacing("x-connect-tenant", " ACME ");
    assert_eq!(world.http().send(&spelled).await.status, 200);
}
