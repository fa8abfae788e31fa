//! The rate of reads, requests at once, sizes, metering and the monthly quota (specification: Limits; D21a, D23).

use super::{
    client_route, data, every_read, every_write, get, joined_with_lead, lead_route, new_client, new_lead, patch, post,
    post_request, record, trip_route, writes_used,
};
use futures_util::future::join_all;
use serde_json::json;
use tests::raw::{exchange, head};
use tests::{ALL_SCOPES, World, event, until_equal};

#[tokio::test]
async fn every_read_route_counts_against_the_rate_limit_of_its_key() {
    let (world, lead) = joined_with_lead().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--reads-per-second", "1"]).await;
    let mut key = world.key.clone();
    for route in every_read(&lead) {
        key = world.add_key(ALL_SCOPES).await;
        // Far more than the rate allows in the time that they take.
        let responses = join_all((0..30).map(async |_| world.http().send(&route.signed(&key)).await)).await;
        let refused: Vec<_> = responses.iter().filter(|response| response.status != 200).collect();
        assert!((1..30).contains(&refused.len()), "{route:?}: {} refused", refused.len());
        for response in refused {
            response.assert_error(429, "rate_limited");
            assert_eq!(response.header("retry-after"), "1");
        }
    }
    // Writes aren't reads, and the limit passes with time.
    let (write, read) = (&every_write(&lead)[0], &every_read(&lead)[0]);
    assert_eq!(world.http().send(&write.signed(&key)).await.status, write.success());
    until_equal("reads pass again", 200, async || world.http().send(&read.signed(&key)).await.status).await;
}

#[tokio::test]
async fn every_write_rejects_a_body_over_the_limit_and_accepts_one_at_the_limit() {
    let world = World::with().set("CONNECT_MAX_BODY", "2KiB").join().await;
    let lead = new_lead(&world, json!({})).await;
    for mut route in every_write(&lead) {
        route.body = format!("{}{}", route.body, " ".repeat(2_049 - route.body.len()));
        let large = route.signed(&world.key);
        world.http().send(&large).await.assert_error(413, "payload_too_large");
        // Without a `Content-Length`.
        let chunked = format!("transfer-encoding: chunked\r\n\r\n801\r\n{}\r\n0\r\n\r\n", route.body);
        let bytes = [head(&large).as_slice(), chunked.as_bytes()].concat();
        let response = exchange(world.http().address(), bytes).await;
        assert_eq!(response.status, 413, "{route:?}");
        assert!(response.body.contains("payload_too_large"), "{}", response.body);

        route.body.pop();
        let response = world.http().send(&route.signed(&world.key)).await;
        assert_eq!(response.status, route.success(), "{route:?}: {response:?}");
    }
    assert_eq!(writes_used(&world).await, 6);
}

#[tokio::test]
async fn a_tenant_with_waiting_writes_is_overloaded_on_every_write_and_another_is_not() {
    let mut world = World::start().await;
    let (lead, zeta) = (new_lead(&world, json!({})).await, world.add_tenant("zeta").await);
    world.end_workers().await;
    // 1,000 writes a second are assumed: two may wait.
    world.restart_ingest_with("CONNECT_BACKLOG_TARGET", "2ms").await;
    let routes: Vec<_> =
        every_write(&lead).into_iter().map(|route| (route.signed(&world.key), route.success())).collect();
    let http = tests::HttpClient::new(world.http().address());
    let waiting: Vec<_> = (0..2)
        .map(|i| post_request(&world.key, "/clients", &format!("k-{i}"), &json!({"externalId": format!("{i}")})))
        .collect();
    let others = async {
        until_waiting(&world, 2.0).await;
        for (request, _) in &routes {
            let response = http.send(request).await;
            response.assert_error(503, "overloaded");
            assert_eq!(response.header("retry-after"), "1", "{response:?}");
        }
        for route in every_read(&lead) {
            assert_eq!(http.send(&route.signed(&world.key)).await.status, 200, "{route:?}");
        }
        let theirs = post_request(&zeta, "/clients", "k-0", &json!({"externalId": "0"}));
        let waited = async {
            until_waiting(&world, 3.0).await;
            world.add_worker().await;
        };
        futures_util::join!(http.send(&theirs), waited).0
    };
    let (responses, theirs) = futures_util::join!(join_all(waiting.iter().map(|request| http.send(request))), others);
    assert!(responses.iter().chain([&theirs]).all(|response| response.status == 201), "{responses:?} {theirs:?}");
    // Nothing was done, nor was a signature used up.
    for (request, success) in routes {
        let response = http.send(&request).await;
        assert_eq!((response.status, response.header("idempotent-replayed")), (success, ""), "{response:?}");
    }
}

async fn until_waiting(world: &World, writes: f64) {
    world.ingests[0].until_sum("connect_backlog_units", &[("queue", "records")], writes).await;
}

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
    let (world, lead) = joined_with_lead().await;
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
