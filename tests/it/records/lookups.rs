//! Lookups (specification: GET /clients, GET /leads; D10, D11), conditions (specification: Headers on records routes;
//! D19), and records of another tenant, which are not found (specification: What the service does; D18).

use super::{
    changeable_routes, client_route, data, get, joined_with_lead, lead_route, new_client, new_lead, patch,
    patch_request, post_as, post_request, record, records_target, trip_route,
};
use serde_json::{Value, json};
use tests::{ApiKey, HttpResponse, World, event, text};

#[tokio::test]
async fn finds_a_client_by_email_external_id_or_phone_digits() {
    let world = World::shared().await;
    let ana =
        new_client(&world, json!({"email": "Ana+1@Example.com", "externalId": "p/1 é", "phone": "+91 (98) 765"})).await;
    // Of several with one phone the oldest is found.
    new_client(&world, json!({"email": "bo@example.com", "phone": "919 8765"})).await;
    for query in [
        "email=Ana%2B1%40Example.com", "email=ana%2b1@EXAMPLE.COM", "externalId=p%2F1+%C3%A9",
        "externalId=p/1%20%c3%a9", "phone=9198765", "phone=%2B91-98-765",
    ] {
        let response = get(&world, &format!("/clients?{query}")).await;
        assert_eq!(data(&response, 200), json!([ana]), "{query}");
        assert_eq!(response.header("etag"), "", "a list has no version");
    }
    for query in ["email=cy@example.com", "externalId=P/1+%C3%A9", "phone=98765"] {
        assert_eq!(data(&get(&world, &format!("/clients?{query}")).await, 200), json!([]), "{query}");
    }
}

#[tokio::test]
async fn prefers_email_over_external_id_over_phone() {
    let world = World::shared().await;
    let ana = new_client(&world, json!({"email": "ana@example.com"})).await;
    let bo = new_client(&world, json!({"externalId": "p-2"})).await;
    let cy = new_client(&world, json!({"phone": "333"})).await;
    for (query, found) in [
        ("phone=333&externalId=p-2&email=ana@example.com", json!([ana])),
        ("phone=333&externalId=p-2", json!([bo])),
        ("phone=333", json!([cy])),
        ("email=&externalId=&phone=333", json!([cy])),
        // The first field that is sent decides, even if it finds nobody.
        ("email=nobody@example.com&externalId=p-2&phone=333", json!([])),
        ("externalId=nobody&phone=333", json!([])),
    ] {
        assert_eq!(data(&get(&world, &format!("/clients?{query}")).await, 200), found, "{query}");
    }
}

#[tokio::test]
async fn rejects_a_lookup_without_its_field() {
    let world = World::shared().await;
    for route in ["/clients", "/clients?name=Ana", "/clients?email=&phone=n/a", "/leads", "/leads?email=a@b.c"] {
        get(&world, route).await.assert_error(400, "lookup_field_required");
    }
    for route in ["/clients?email=%zz", "/leads?externalId=%00", "/leads?externalId=a&externalId=b"] {
        get(&world, route).await.assert_error(400, "invalid_request");
    }
}

#[tokio::test]
async fn finds_leads_by_external_id_from_any_source_newest_first() {
    let world = World::shared().await;
    let first = new_lead(&world, json!({"externalId": "x-1"})).await;
    let sent = event("enquiry.submitted").email("bo@example.com").payload(json!({"externalLeadId": "x-1"}));
    let second = world.accept(sent).await;
    new_lead(&world, json!({"externalId": "x-2"})).await;
    let third = new_lead(&world, json!({"externalId": "x-1", "title": "Third"})).await;
    let found = data(&get(&world, "/leads?externalId=x-1").await, 200);
    let ids: Vec<&Value> = found.as_array().expect("a list").iter().map(|lead| &lead["id"]).collect();
    assert_eq!(ids, [&third["id"], &second["leadId"], &first["id"]]);
    assert_eq!(found[0], third);
    assert_eq!(data(&get(&world, "/leads?externalId=x-9").await, 200), json!([]));
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
            assert_eq!((response.header("etag"), response.header("cache-control")), (etag.as_str(), "no-store"));
        }
        record(&get_unless(&world, &route, "\"x\"").await, 200);
        record(&patch(&world, &route, json!({field: "One"})).await, 200);
        assert_eq!(record(&get_unless(&world, &route, &etag).await, 200)[field], "One");
    }
}

/// Checks that `key` finds nothing at these routes, whichever method it takes.
async fn assert_nothing_at(world: &World, key: &ApiKey, routes: &[String]) {
    for route in routes {
        let read = key.records("GET", &records_target(route), "");
        world.http().send(&read).await.assert_error(404, "not_found");
        let field = if route.starts_with("/clients") { "name" } else { "title" };
        for body in [json!({}), json!({field: "x"})] {
            world.http().send(&patch_request(key, route, &body)).await.assert_error(404, "not_found");
        }
    }
}

#[tokio::test]
async fn unknown_and_malformed_ids_are_not_found() {
    let (world, lead) = joined_with_lead().await;
    let known = text(&lead["id"]);
    let cut = &known[..35];
    let longer = format!("{known}0");
    let texts = "0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e a3bb189e-8bf9-4888-9912-ace4e6543002 x 1 %20 %00 %ff";
    let routes: Vec<_> = texts
        .split(' ')
        .chain([cut, &longer])
        .flat_map(|id| [format!("/clients/{id}"), format!("/leads/{id}"), format!("/leads/{id}/trip")])
        .collect();
    assert_nothing_at(&world, &world.key, &routes).await;
    // An id of the other kind is no id of this one.
    let crossed = [
        format!("/clients/{known}"),
        format!("/leads/{}", text(&lead["clientId"])),
        format!("/leads/{}/trip", text(&lead["tripId"])),
    ];
    assert_nothing_at(&world, &world.key, &crossed).await;
}

#[tokio::test]
async fn records_of_another_tenant_are_not_found_by_any_route() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let lead = new_lead(&world, json!({"externalId": "x-1"})).await;
    let client = new_client(&world, json!({"email": "bo@example.com", "externalId": "p-1", "phone": "333"})).await;
    let routes = [client_route(&client), lead_route(&lead), trip_route(&lead)];
    assert_nothing_at(&world, &zeta, &routes).await;
    let taken = post_as(&world, &zeta, "/leads", json!({"clientId": client["id"]})).await;
    taken.assert_error(404, "not_found");
    for query in
        ["/clients?email=bo@example.com", "/clients?externalId=p-1", "/clients?phone=333", "/leads?externalId=x-1"]
    {
        let response = world.http().send(&zeta.records("GET", &records_target(query), "")).await;
        assert_eq!(data(&response, 200), json!([]), "{query}");
        assert_eq!(data(&get(&world, query).await, 200).as_array().map(Vec::len), Some(1), "{query}");
    }
    for (route, before) in [(client_route(&client), &client), (lead_route(&lead), &lead)] {
        assert_eq!(record(&get(&world, &route).await, 200), *before);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 1);
}

#[tokio::test]
async fn identities_and_members_of_another_tenant_do_not_count() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let body = json!({"email": "bo@example.com", "externalId": "p-1", "phone": "333"});
    let here = new_client(&world, body.clone()).await;
    let there = record(&post_as(&world, &zeta, "/clients", body).await, 201);
    assert_ne!(here["id"], there["id"]);
    let add = ["member", "add", "--tenant", "zeta", "--email", "zoe@zeta.test", "--name", "Zoe"];
    world.connectctl.json(&add).await;
    let lead = new_lead(&world, json!({})).await;
    let response = patch(&world, &lead_route(&lead), json!({"owner": "zoe@zeta.test"})).await;
    response.assert_error(422, "owner_not_member");
    let numbered = post_request(&zeta, "/leads", "k", &json!({"clientId": there["id"]}));
    let theirs = record(&world.http().send(&numbered).await, 201);
    assert_eq!(theirs["owner"], json!({"email": "zoe@zeta.test", "name": "Zoe"}));
    assert!(text(&theirs["enquiryNumber"]).ends_with("-000001"), "{theirs}");
}
