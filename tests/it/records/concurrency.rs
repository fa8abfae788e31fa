//! Many writes at once, over several programs (D17, D19, D23).

use super::{
    changeable_routes, client_route, data, get, new_client, new_lead, patch_request, post_request, record,
    send_at_once, trip_route, writes_used,
};
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::World;

#[tokio::test]
async fn fifty_concurrent_posts_with_one_key_create_one_record() {
    let world = World::shared().await;
    for (route, table) in [("/clients", "clients"), ("/leads", "leads")] {
        let ana = json!({"email": format!("{table}@example.com")});
        let body = if table == "leads" { json!({"contact": ana}) } else { ana };
        let requests: Vec<_> = (0..50).map(|_| post_request(&world.key, route, table, &body)).collect();
        let responses = send_at_once(&world, &requests).await;
        let created = record(&responses[0], 201);
        assert!(responses.iter().all(|response| record(response, 201) == created), "{responses:?}");
        let first =
            responses.iter().filter(|response| response.header("idempotent-replayed").is_empty()).count();
        assert_eq!(first, 1, "one creates, the others are replays");
        let made = world.database.count(&format!("SELECT count(*) FROM {table}")).await;
        assert_eq!(made, 1, "{table}");
    }
    assert_eq!(writes_used(&world).await, 2);
}

#[tokio::test]
async fn fifty_concurrent_posts_of_one_email_with_different_keys_create_one_client() {
    let world = World::shared().await;
    let requests: Vec<_> = (0..50)
        .map(|i| {
            let email = if i % 2 == 0 { "ana@example.com" } else { "ANA@Example.com" };
            post_request(&world.key, "/clients", &format!("k-{i}"), &json!({"email": email}))
        })
        .collect();
    let responses = send_at_once(&world, &requests).await;
    let (created, refused): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 201);
    assert_eq!((created.len(), refused.len()), (1, 49), "{responses:?}");
    let id = &record(created[0], 201)["id"];
    for response in refused {
        assert_eq!(super::refused_with(response, 409, "client_exists", "clientId"), *id);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    assert_eq!(writes_used(&world).await, 1);
}

#[tokio::test]
async fn exactly_one_of_concurrent_patches_with_one_etag_succeeds() {
    let world = World::shared().await;
    for (route, field) in changeable_routes(&world).await.iter().cycle().take(9) {
        let etag = get(&world, route).await.header("etag").to_owned();
        let requests: Vec<_> = (0..10)
            .map(|i| {
                let body = json!({*field: format!("{i} of {etag}")});
                patch_request(&world.key, route, &body).with("if-match", &etag)
            })
            .collect();
        let responses = send_at_once(&world, &requests).await;
        let (done, stale): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
        assert_eq!((done.len(), stale.len()), (1, 9), "{route}: {responses:?}");
        let kept = record(done[0], 200);
        for response in stale {
            assert_eq!(super::refused_with(response, 412, "stale_write", "updatedAt"), kept["updatedAt"]);
        }
        assert_eq!(data(&get(&world, route).await, 200), kept, "{route}");
    }
}

#[tokio::test]
async fn exactly_one_of_concurrent_claims_of_an_external_id_succeeds() {
    let world = World::shared().await;
    let mut clients = Vec::new();
    for i in 0..8 {
        clients.push(new_client(&world, json!({"email": format!("{i}@example.com")})).await);
    }
    let requests: Vec<_> = clients
        .iter()
        .map(|client| patch_request(&world.key, &client_route(client), &json!({"externalId": "p-1"})))
        .collect();
    let responses = send_at_once(&world, &requests).await;
    let (done, refused): (Vec<_>, Vec<_>) = responses.iter().partition(|response| response.status == 200);
    assert_eq!((done.len(), refused.len()), (1, 7), "{responses:?}");
    let holder = &record(done[0], 200)["id"];
    for response in refused {
        assert_eq!(super::refused_with(response, 409, "identity_taken", "clientId"), *holder);
    }
}

#[tokio::test]
async fn keeps_all_concurrent_changes_to_different_fields() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    let of_client = [
        ("name", json!("Bo")),
        ("phone", json!("333")),
        ("company", json!("Bo & Co")),
        ("externalId", json!("p-1")),
        ("marketingOptIn", json!(true)),
    ];
    let of_trip = [
        ("title", json!("South")),
        ("destination", json!("Goa")),
        ("travelDates", json!({"startDate": "2027-05-01", "endDate": "2027-05-02"})),
        ("guestNationality", json!("IN")),
    ];
    let client = client_route(&json!({"id": lead["clientId"]}));
    for (route, fields) in [(client, &of_client[..]), (trip_route(&lead), &of_trip)] {
        let change =
            |(field, value): &(&str, Value)| patch_request(&world.key, &route, &json!({*field: value}));
        let requests: Vec<_> = fields.iter().map(change).collect();
        let responses = send_at_once(&world, &requests).await;
        let versions: HashSet<_> =
            responses.iter().map(|response| record(response, 200)["updatedAt"].to_string()).collect();
        assert_eq!(versions.len(), fields.len(), "every change has a version of its own: {versions:?}");
        let after = record(&get(&world, &route).await, 200);
        for (field, value) in fields {
            assert_eq!(after[*field], *value, "{field}");
        }
    }
    assert_eq!(world.inbox(&lead["id"]).await.len(), 4, "each change of the trip is posted");
}
