//! Every documented route is served, with its documented scopes and methods.

use super::{DOCS, OPENAPI, document, endpoints, get};
use serde_json::Value;
use tests::{ALL_SCOPES, ApiKey, HttpRequest, World};

/// A path with an id where one belongs.
fn filled(path: &str) -> String {
    let id = "0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e";
    path.replace("{clientId}", id).replace("{leadId}", id)
}

/// The scope of an endpoint; `None` for one that needs no credentials.
fn scope(operation: &Value) -> Option<&str> {
    let schemes = operation["security"].as_array().expect("security").first()?;
    schemes["ConnectKey"][0].as_str()
}

/// A request to an endpoint, signed as it says.
fn signed(key: &ApiKey, path: &str, method: &str, operation: &Value) -> HttpRequest {
    let is_v1 = operation["security"][0].get("ConnectSignatureV1").is_some();
    if is_v1 { key.events("{}") } else { key.records(method, &filled(path), "") }
}

#[tokio::test]
async fn every_documented_endpoint_exists_and_accepts_only_its_documented_methods() {
    let world = World::with().workers(0).start().await;
    let document = document(&world).await;
    let endpoints = endpoints(&document);
    assert_eq!(endpoints.len(), 13);
    for (path, method, operation) in &endpoints {
        let response = world.http().send(&HttpRequest::new(method, &filled(path), "")).await;
        let expected = if scope(operation).is_some() { 401 } else { 200 };
        assert_eq!(response.status, expected, "{method} {path}");

        let mut methods: Vec<&str> = endpoints
            .iter()
            .filter(|(other, ..)| other == path)
            .map(|(_, method, _)| method.as_str())
            .collect();
        if scope(operation).is_none() {
            methods.push("HEAD");
        }
        for other in
            ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].iter().filter(|it| !methods.contains(it))
        {
            let response = world.http().send(&HttpRequest::new(other, &filled(path), "")).await;
            response.assert_error(405, "method_not_allowed");
            assert_eq!(response.header("allow"), methods.join(", "), "{other} {path}");
        }
    }
}

#[tokio::test]
async fn every_endpoint_requires_exactly_its_documented_scope() {
    let world = World::with().workers(0).start().await;
    let document = document(&world).await;
    let endpoints = endpoints(&document);
    let signed_endpoints = endpoints
        .iter()
        .filter_map(|(path, method, operation)| Some((path, method, operation, scope(operation)?)));
    let mut count = 0;
    for (path, method, operation, scope) in signed_endpoints {
        let others: Vec<_> = ALL_SCOPES.split(',').filter(|other| *other != scope).collect();
        assert_eq!(others.len(), 5, "{scope} is a scope");
        let (with, without) = (world.add_key(scope).await, world.add_key(&others.join(",")).await);
        let forbidden = world.http().send(&signed(&without, path, method, operation)).await;
        forbidden.assert_error(403, "forbidden");
        // The request may be refused, but not for its credentials.
        let passed = world.http().send(&signed(&with, path, method, operation)).await;
        assert!(![401, 403].contains(&passed.status), "{method} {path}: {passed:?}");
        count += 1;
    }
    assert_eq!(count, 11);
}

#[tokio::test]
async fn the_description_responds_to_head_with_the_headers_of_get() {
    let world = World::with().workers(0).start().await;
    for target in [OPENAPI, DOCS] {
        let shown = get(&world, target).await;
        let head = world.http().send(&HttpRequest::new("HEAD", target, "")).await;
        assert_eq!((head.status, head.body.len()), (200, 0), "{target}");
        for header in ["content-type", "etag", "cache-control"] {
            assert_eq!(head.header(header), shown.header(header), "{target}");
        }
        assert_eq!(head.header("content-length"), shown.body.len().to_string(), "{target}");
    }
}

#[tokio::test]
async fn the_description_is_public_and_cacheable_by_etag() {
    let world = World::with().workers(0).start().await;
    for (target, content_type) in [(OPENAPI, "application/json"), (DOCS, "text/html; charset=utf-8")] {
        let response = get(&world, target).await;
        assert_eq!((response.status, response.header("content-type")), (200, content_type));
        assert_eq!(response.header("x-content-type-options"), "nosniff");
        assert_eq!(response.header("cache-control"), "no-cache");
        let etag = response.header("etag");
        let again = HttpRequest::new("GET", target, "").with("if-none-match", etag);
        let again = world.http().send(&again).await;
        assert_eq!((again.status, again.body.len(), again.header("etag")), (304, 0, etag));
    }
    let policy = get(&world, DOCS).await;
    assert_eq!(policy.header("referrer-policy"), "no-referrer");
    let policy = policy.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
}

#[tokio::test]
async fn the_description_is_served_while_the_servers_are_unavailable() {
    let world = World::with().workers(0).through_proxies().start().await;
    world.proxies().postgres.reset_connections();
    world.proxies().broker.reset_connections();
    for target in [OPENAPI, DOCS] {
        assert_eq!(get(&world, target).await.status, 200, "{target}");
    }
}

#[tokio::test]
async fn metrics_name_the_routes_of_the_description() {
    let world = World::with().workers(0).start().await;
    for target in [OPENAPI, DOCS] {
        get(&world, target).await;
        let samples = world.ingests[0].metrics().await;
        let labels = [("route", target), ("method", "GET"), ("status", "200")];
        assert_eq!(samples.sum("connect_http_requests_total", &labels), 1.0, "{target}");
    }
}
