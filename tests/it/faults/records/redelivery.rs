//! Writes that are delivered more than once are applied once and get the same response (architecture: Invariant 2).

use crate::records::{
    client_route, data, get, lead_route, new_lead, patch_request, post_request, record, records_target, trip_route,
};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};
use tests::{HttpRequest, HttpResponse, World, text, until};

/// Sends a write whose message reaches the worker twice, the first time without a reply queue; returns the response from
/// the second delivery.
async fn delivered_twice(world: &mut World, request: &HttpRequest) -> HttpResponse {
    // A graceful shutdown, because a worker that is killed right after a reply may not have acknowledged its message.
    for mut worker in world.workers.drain(..) {
        assert!(worker.terminate().await.success());
    }
    let ingest = tests::HttpClient::new(world.http().address());
    let applied = "SELECT count(*) FROM event_ledger";
    let before = world.database.count(applied).await;
    let twice = async {
        world.until_depth("records", 1).await;
        let message = world.queues.take("records").await.expect("a message");
        world.queues.publish_message("records", &message.without_reply()).await;
        world.add_worker().await;
        world.database.until_count(applied, before + 1).await;
        world.queues.publish_message("records", &message).await;
    };
    futures_util::join!(ingest.send(request), twice).0
}

#[tokio::test]
async fn a_redelivered_write_gets_its_original_response_and_is_applied_once() {
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let negotiated = patch_request(&world.key, &lead_route(&lead), &json!({"stage": "negotiation"}));
    record(&world.http().send(&negotiated).await, 200);
    let client = client_route(&json!({"id": lead["clientId"]}));
    let etag = get(&world, &client).await.header("etag").to_owned();
    let itinerary = json!({"title": "x", "days": []});
    let body = json!({"message": "Hello", "itinerary": itinerary});
    for (request, status) in [
        (post_request(&world.key, "/clients", "k-1", &json!({"email": "bo@example.com"})), 201),
        (post_request(&world.key, "/leads", "k-2", &json!({"clientId": lead["clientId"]})), 201),
        (patch_request(&world.key, &client, &json!({"name": "Bo"})).with("if-match", etag), 200),
        (patch_request(&world.key, &lead_route(&lead), &json!({"owner": "ben@acme.test"})), 200),
        (patch_request(&world.key, &trip_route(&lead), &body), 200),
    ] {
        let response = delivered_twice(&mut world, &request).await;
        let shown = record(&response, status);
        assert_eq!(response.header("idempotent-replayed"), "", "its caller sent it once: {request:?}");
        if let Some(applied) = shown.get("itineraryApplied") {
            let expected = (&json!(false), &json!("advisor_working"));
            assert_eq!((applied, &shown["itineraryNotAppliedReason"]), expected);
        } else if request.method == "PATCH" {
            let target = request.target.strip_prefix(&records_target("")).expect("a records route");
            assert_eq!(data(&get(&world, target).await, 200), shown);
        }
    }
    for (what, count) in [
        ("clients", 2),
        ("leads", 2),
        ("inbox_messages", 2),
        ("notifications WHERE kind = 'lead_assigned' AND recipient = 'ben@acme.test'", 2),
    ] {
        assert_eq!(world.database.count(&format!("SELECT count(*) FROM {what}")).await, count, "{what}");
    }
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], 7);
}

#[tokio::test]
async fn a_worker_killed_in_a_burst_of_writes_loses_and_repeats_nothing() {
    const WRITES: usize = 60;
    let mut world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    let ingest = tests::HttpClient::new(world.http().address());
    let done = AtomicUsize::new(0);
    let requests: Vec<_> = (0..WRITES)
        .map(|i| match i % 3 {
            0 => post_request(
                &world.key,
                "/leads",
                &format!("k-{i}"),
                &json!({"contact": {"externalId": format!("{i}")}}),
            ),
            1 => patch_request(&world.key, &trip_route(&lead), &json!({"message": format!("{i}")})),
            _ => patch_request(&world.key, &lead_route(&lead), &json!({"title": format!("{i}")})),
        })
        .collect();
    let send = async |request: &HttpRequest| {
        let response = ingest.send(request).await;
        done.fetch_add(1, Ordering::Relaxed);
        response
    };
    let kill = async {
        for part in [10, 25, 40] {
            until("writes go through", async || done.load(Ordering::Relaxed), |&done| done >= part).await;
            world.workers[0].kill();
            world.workers.clear();
            world.add_worker().await;
        }
    };
    // A few at a time, so that the worker always has an unacknowledged message.
    let sending = async {
        let mut responses = Vec::new();
        for some in requests.chunks(4) {
            responses.extend(join_all(some.iter().map(&send)).await);
        }
        responses
    };
    let (responses, ()) = futures_util::join!(sending, kill);
    for (request, response) in requests.iter().zip(&responses) {
        record(response, if request.method == "POST" { 201 } else { 200 });
        assert_eq!(response.header("idempotent-replayed"), "", "{request:?}");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 1 + 20);
    let messages = world.inbox(&lead["id"]).await;
    let mut texts: Vec<_> = messages.iter().map(|message| text(&message["text"]).to_owned()).collect();
    texts.sort();
    let mut expected: Vec<_> = (0..WRITES).filter(|i| i % 3 == 1).map(|i| i.to_string()).collect();
    expected.sort();
    assert_eq!(texts, expected);
    assert_eq!(world.connectctl.json(&["usage", "--tenant", "acme"]).await["writes"], WRITES + 1);
}
