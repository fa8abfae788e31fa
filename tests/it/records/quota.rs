//! Metering and the monthly quota (specification: Limits; D23).

use super::{
    client_route, data, every_write, get, lead_route, new_client, new_lead, patch, post, post_request,
    record, trip_route, writes_used,
};
use futures_util::future::join_all;
use serde_json::json;
use tests::{World, event};

#[tokio::test]
async fn each_successful_write_counts_once_and_nothing_else_does() {
    let world = World::shared().await;
    assert_eq!(writes_used(&world).await, 0);
    let body = json!({"email": "bo@example.com"});
    let send = async || world.http().send(&post_request(&world.key, "/clients", "k-1", &body)).await;
    let client = record(&send().await, 201);
    assert_eq!(writes_used(&world).await, 1);
    let lead = new_lead(&world, json!({})).await;
    record(&patch(&world, &client_route(&client), json!({"name": "Bo"})).await, 200);
    record(&patch(&world, &trip_route(&lead), json!({"message": "Hello"})).await, 200);
    assert_eq!(writes_used(&world).await, 4);
    // A replay, reads, failures and events.
    assert_eq!(send().await.header("idempotent-replayed"), "true");
    data(&get(&world, &client_route(&client)).await, 200);
    data(&get(&world, "/clients?email=bo@example.com").await, 200);
    assert_eq!(post(&world, "/clients", body.clone()).await.status, 409);
    assert_eq!(patch(&world, &client_route(&client), json!({"name": null})).await.status, 400);
    let stale = super::patch_request(&world.key, &client_route(&client), &json!({"name": "x"}));
    assert_eq!(world.http().send(&stale.with("if-match", "\"x\"")).await.status, 412);
    world.accept(event("enquiry.submitted").email("bo@example.com")).await;
    assert_eq!(writes_used(&world).await, 4);
}

#[tokio::test]
async fn an_exhausted_quota_rejects_every_write_but_not_replays_or_reads() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "3"]).await;
    let body = json!({"email": "bo@example.com"});
    let first = world.http().send(&post_request(&world.key, "/clients", "k-1", &body)).await;
    let client = record(&first, 201);
    record(&patch(&world, &client_route(&client), json!({"name": "Bo"})).await, 200);
    for route in every_write(&lead) {
        let response = world.http().send(&route.signed(&world.key)).await;
        response.assert_error(429, "quota_exceeded");
        let seconds: u32 = response.header("retry-after").parse().expect("seconds");
        assert!((1..=31 * 24 * 60 * 60).contains(&seconds), "{seconds}");
    }
    let replay = world.http().send(&post_request(&world.key, "/clients", "k-1", &body)).await;
    assert_eq!((replay.header("idempotent-replayed"), &replay.body), ("true", &first.body));
    assert_eq!(data(&get(&world, &client_route(&client)).await, 200)["name"], "Bo");
    assert_eq!(data(&get(&world, &lead_route(&lead)).await, 200), lead);
    assert_eq!(world.database.count("SELECT count(*) FROM event_ledger").await, 3);
    assert_eq!(writes_used(&world).await, 3);
    // Events are not metered, another tenant has its own quota, and a higher quota lets writes pass.
    world.accept(event("contact.identified").email("cy@example.com")).await;
    let zeta = world.add_tenant("zeta").await;
    record(&super::post_as(&world, &zeta, "/clients", body).await, 201);
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "none"]).await;
    record(&patch(&world, &client_route(&client), json!({"name": "Cy"})).await, 200);
}

#[tokio::test]
async fn exactly_the_quota_of_forty_concurrent_writes_succeeds() {
    let world = World::shared().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "10"]).await;
    let posts = (0..40).map(|i| post(&world, "/clients", json!({"email": format!("{i}@example.com")})));
    let responses = join_all(posts).await;
    assert_eq!(responses.iter().filter(|response| response.status == 201).count(), 10);
    for response in responses.iter().filter(|response| response.status != 201) {
        response.assert_error(429, "quota_exceeded");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 10);
    assert_eq!(writes_used(&world).await, 10);
}

#[tokio::test]
async fn a_new_month_starts_at_zero() {
    let world = World::shared().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "1"]).await;
    new_client(&world, json!({"email": "bo@example.com"})).await;
    post(&world, "/clients", json!({"email": "cy@example.com"})).await.assert_error(429, "quota_exceeded");
    world.database.execute("UPDATE usage_counters SET month = month - interval '1 month'").await;
    assert_eq!(writes_used(&world).await, 0);
    new_client(&world, json!({"email": "cy@example.com"})).await;
    assert_eq!(writes_used(&world).await, 1);
}
