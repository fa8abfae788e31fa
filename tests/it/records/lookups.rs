//! Lookups (specification: GET /clients, GET /leads; D10, D11).

use super::{data, get, new_client, new_lead};
use serde_json::{Value, json};
use tests::{World, event};

#[tokio::test]
async fn finds_a_client_by_email_external_id_or_phone_digits() {
    let world = World::shared().await;
    let ana = new_client(
        &world,
        json!({"email": "Ana+1@Example.com", "externalId": "p/1 é", "phone": "+91 (98) 765"}),
    )
    .await;
    // Of several with one phone the oldest is found.
    new_client(&world, json!({"email": "bo@example.com", "phone": "919 8765"})).await;
    for query in [
        "email=Ana%2B1%40Example.com",
        "email=ana%2b1@EXAMPLE.COM",
        "externalId=p%2F1+%C3%A9",
        "externalId=p/1%20%c3%a9",
        "phone=9198765",
        "phone=%2B91-98-765",
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
    for route in
        ["/clients", "/clients?name=Ana", "/clients?email=&phone=n/a", "/leads", "/leads?email=a@b.c"]
    {
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
