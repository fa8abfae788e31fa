//! ETag, If-Match and If-None-Match (specification: Headers on records routes; D19).

use super::{
    client_route, data, get, lead_route, new_lead, patch, patch_request, record, records_target, trip_route,
};
use serde_json::{Value, json};
use tests::{HttpResponse, World, text};

/// The routes of a client, its lead and its trip, each with a text field that can be changed.
async fn routes(world: &World) -> [(String, &'static str); 3] {
    let lead = new_lead(world, json!({})).await;
    let client = client_route(&json!({"id": lead["clientId"]}));
    [(client, "name"), (lead_route(&lead), "title"), (trip_route(&lead), "destination")]
}

async fn patch_if(world: &World, route: &str, condition: &str, body: Value) -> HttpResponse {
    world.http().send(&patch_request(&world.key, route, &body).with("if-match", condition)).await
}

async fn get_unless(world: &World, route: &str, condition: &str) -> HttpResponse {
    let request = world.key.records("GET", &records_target(route), "").with("if-none-match", condition);
    world.http().send(&request).await
}

#[tokio::test]
async fn accepts_a_patch_of_the_current_version_and_rejects_a_stale_one_naming_it() {
    let world = World::shared().await;
    for (route, field) in routes(&world).await {
        let old = get(&world, &route).await.header("etag").to_owned();
        let current = patch_if(&world, &route, &old, json!({field: "One"})).await;
        let one = record(&current, 200);
        let stale = patch_if(&world, &route, &old, json!({field: "Two"})).await;
        assert_eq!(super::refused_with(&stale, 412, "stale_write", "updatedAt"), one["updatedAt"]);
        assert_eq!(record(&get(&world, &route).await, 200), one, "{route}");
        // Without a condition the PATCH wins.
        assert_eq!(record(&patch(&world, &route, json!({field: "Three"})).await, 200)[field], "Three");
    }
}

#[tokio::test]
async fn accepts_a_star_and_a_list_with_the_current_version() {
    let world = World::shared().await;
    for (route, field) in routes(&world).await {
        record(&patch_if(&world, &route, "*", json!({field: "One"})).await, 200);
        let etag = get(&world, &route).await.header("etag").to_owned();
        let list = format!("\"2020-01-01T00:00:00.000Z\", {etag}");
        record(&patch_if(&world, &route, &list, json!({field: "Two"})).await, 200);
        let etag = get(&world, &route).await.header("etag").to_owned();
        for other in ["\"x\"".to_owned(), "\"x\", \"y\"".to_owned(), format!("W/{etag}")] {
            let response = patch_if(&world, &route, &other, json!({field: "Three"})).await;
            super::refused_with(&response, 412, "stale_write", "updatedAt");
        }
    }
}

#[tokio::test]
async fn rejects_a_malformed_condition() {
    let world = World::shared().await;
    let [(route, field), ..] = routes(&world).await;
    for wrong in ["x", "\"x", "", "*, \"x\"", "\"a\" \"b\""] {
        let response = patch_if(&world, &route, wrong, json!({field: "One"})).await;
        let message = response.assert_error(400, "invalid_request");
        assert!(message.contains("If-Match"), "{message}");
    }
}

#[tokio::test]
async fn a_get_of_a_known_version_returns_304() {
    let world = World::shared().await;
    for (route, field) in routes(&world).await {
        let etag = get(&world, &route).await.header("etag").to_owned();
        for condition in [etag.clone(), "*".to_owned(), format!("\"x\", W/{etag}")] {
            let response = get_unless(&world, &route, &condition).await;
            assert_eq!((response.status, response.body.len()), (304, 0), "{condition}: {response:?}");
            assert_eq!(response.header("etag"), etag);
        }
        record(&get_unless(&world, &route, "\"x\"").await, 200);
        record(&patch(&world, &route, json!({field: "One"})).await, 200);
        assert_eq!(record(&get_unless(&world, &route, &etag).await, 200)[field], "One");
    }
}

#[tokio::test]
async fn a_patch_that_changes_nothing_keeps_the_version() {
    let world = World::shared().await;
    for (route, field) in routes(&world).await {
        let one = record(&patch(&world, &route, json!({field: "One"})).await, 200);
        assert_eq!(record(&patch(&world, &route, json!({field: "One"})).await, 200), one);
        assert_eq!(record(&patch(&world, &route, json!({})).await, 200), one);
    }
}

#[tokio::test]
async fn every_change_of_a_record_increases_its_version() {
    let world = World::shared().await;
    for (route, field) in routes(&world).await {
        let mut version = data(&get(&world, &route).await, 200)["updatedAt"].clone();
        for i in 0..20 {
            let after = record(&patch(&world, &route, json!({field: format!("Name {i}")})).await, 200);
            assert!(text(&after["updatedAt"]) > text(&version), "{after}");
            version = after["updatedAt"].clone();
        }
    }
}

#[tokio::test]
async fn a_stage_change_increases_the_versions_of_lead_and_trip() {
    let world = World::shared().await;
    let [_, (lead, _), (trip, _)] = routes(&world).await;
    let before = get(&world, &trip).await.header("etag").to_owned();
    let lead_before = record(&get(&world, &lead).await, 200);
    let changed = record(&patch(&world, &lead, json!({"stage": "follow_up"})).await, 200);
    assert!(text(&changed["updatedAt"]) > text(&lead_before["updatedAt"]), "{changed}");
    let stale = patch_if(&world, &trip, &before, json!({"destination": "Goa"})).await;
    let version = super::refused_with(&stale, 412, "stale_write", "updatedAt");
    assert_eq!(record(&get(&world, &trip).await, 200)["updatedAt"], version);
}
