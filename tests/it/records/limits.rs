//! The rate of reads, requests at once, and sizes (specification: Limits; D21a, D23).

use super::{every_read, every_route, every_write, new_lead, post_request, records_target, writes_used};
use futures_util::future::join_all;
use serde_json::json;
use tests::raw::{exchange, head};
use tests::{ALL_SCOPES, World, until_equal};

#[tokio::test]
async fn every_read_route_counts_against_the_rate_limit_of_its_key() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
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
async fn a_tenant_with_waiting_writes_is_overloaded_on_every_route_and_another_is_not() {
    let mut world = World::start().await;
    let (lead, zeta) = (new_lead(&world, json!({})).await, world.add_tenant("zeta").await);
    world.end_workers().await;
    world.set("CONNECT_MAX_IN_FLIGHT_PER_TENANT", "2");
    world.restart_ingest().await;
    let routes: Vec<_> =
        every_route(&lead).into_iter().map(|route| (route.signed(&world.key), route.success())).collect();
    let http = tests::HttpClient::new(world.http().address());
    let waiting: Vec<_> = (0..2)
        .map(|i| {
            post_request(&world.key, "/clients", &format!("k-{i}"), &json!({"externalId": format!("{i}")}))
        })
        .collect();
    let others = async {
        until_equal("two writes wait", 2, async || world.queues.depth("records").await).await;
        for (request, _) in &routes {
            let response = http.send(request).await;
            response.assert_error(503, "overloaded");
            assert_eq!(response.header("retry-after"), "1", "{response:?}");
        }
        let theirs = zeta.records("GET", &records_target("/clients?phone=1"), "");
        assert_eq!(http.send(&theirs).await.status, 200);
        world.add_worker().await;
    };
    let (responses, ()) =
        futures_util::join!(join_all(waiting.iter().map(|request| http.send(request))), others);
    assert!(responses.iter().all(|response| response.status == 201), "{responses:?}");
    // Nothing was done, nor was a signature used up.
    for (request, success) in routes {
        let response = http.send(&request).await;
        assert_eq!((response.status, response.header("idempotent-replayed")), (success, ""), "{response:?}");
    }
}
