//! ETag, If-Match and If-None-Match (specification: Headers on records routes; D19).

use super::{changeable_routes, get, patch, patch_request, record, records_target};
use serde_json::{Value, json};
use tests::{HttpResponse, World};

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
    for (route, field) in changeable_routes(&world).await {
        let old = get(&world, &route).await.header("etag").to_owned();
        let current = patch_if(&world, &route, &old, json!({field: "One"})).await;
        let one = record(&current, 200);
        let stale = patch_if(&world, &route, &old, json!({field: "Two"})).await;
        assert_eq!(super::refused_with(&stale, 412, "stale_write", "updatedAt"), one["updatedAt"]);
        assert_eq!(record(&get(&world, &route).await, 200), one, "{route}");
        // Without a condition the PATCH wins.
        let three = record(&patch(&world, &route, json!({field: "Three"})).await, 200);
        assert_eq!(three[field], "Three");
        // What changes nothing keeps the version.
        for same in [json!({field: "Three"}), json!({})] {
            assert_eq!(record(&patch(&world, &route, same).await, 200), three);
        }
    }
}

#[tokio::test]
async fn accepts_a_star_and_a_list_with_the_current_version_and_nothing_malformed() {
    let world = World::shared().await;
    for (route, field) in changeable_routes(&world).await {
        record(&patch_if(&world, &route, "*", json!({field: "One"})).await, 200);
        let etag = get(&world, &route).await.header("etag").to_owned();
        let list = format!("\"2020-01-01T00:00:00.000Z\", {etag}");
        record(&patch_if(&world, &route, &list, json!({field: "Two"})).await, 200);
        let etag = get(&world, &route).await.header("etag").to_owned();
        for other in ["\"x\"".to_owned(), "\"x\", \"y\"".to_owned(), format!("W/{etag}")] {
            let response = patch_if(&world, &route, &other, json!({field: "Three"})).await;
            super::refused_with(&response, 412, "stale_write", "updatedAt");
        }
        for malformed in ["x", "\"x", "", "*, \"x\"", "\"a\" \"b\""] {
            let response = patch_if(&world, &route, malformed, json!({field: "One"})).await;
            let message = response.assert_error(400, "invalid_request");
            assert!(message.contains("If-Match"), "{message}");
        }
    }
}

#[tokio::test]
async fn a_get_of_a_known_version_returns_304() {
    let world = World::shared().await;
    for (route, field) in changeable_routes(&world).await {
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
