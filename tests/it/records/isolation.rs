//! Records of another tenant are not found (specification: What the service does; D18).

use super::{
    client_route, data, get, lead_route, new_client, new_lead, patch, patch_request, post_as, post_request,
    record, records_target, trip_route,
};
use serde_json::json;
use tests::{ApiKey, World, text};

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
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
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
    let client =
        new_client(&world, json!({"email": "bo@example.com", "externalId": "p-1", "phone": "333"})).await;
    let routes = [client_route(&client), lead_route(&lead), trip_route(&lead)];
    assert_nothing_at(&world, &zeta, &routes).await;
    let taken = post_as(&world, &zeta, "/leads", json!({"clientId": client["id"]})).await;
    taken.assert_error(404, "not_found");
    for query in [
        "/clients?email=bo@example.com",
        "/clients?externalId=p-1",
        "/clients?phone=333",
        "/leads?externalId=x-1",
    ] {
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
