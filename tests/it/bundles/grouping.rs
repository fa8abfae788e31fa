//! Which requests share a message, and which do not.

use super::{
    assert_own_results, events_of, identified, identified_each, request_ids, results, send_and_take_messages,
    send_during_a_publish, stallable, take_messages, until_published,
};
use common::bundle::BundleMeta;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::{Event, HttpClient, HttpRequest, QueuedMessage, World, batch, event, text};

#[tokio::test]
async fn requests_arriving_during_a_publish_share_a_message_and_get_their_own_results() {
    let world = stallable().start().await;
    let requests = identified_each(&world.key, 16);
    let (first, rest) = requests.split_at(1);
    let responses = send_during_a_publish(&world, first, rest).await;
    assert_own_results(&requests, &responses);
    let ids: BTreeSet<&str> = responses.iter().map(|response| response.header("x-request-id")).collect();
    assert_eq!(ids.len(), requests.len());
    let metrics = world.ingests[0].metrics().await;
    let replied = [("queue", "events"), ("outcome", "replied")];
    assert_eq!(metrics.sum("connect_publish_total", &replied), 2.0);
    assert_eq!(metrics.sum("connect_reply_wait_seconds_count", &[("queue", "events")]), 2.0);
    assert_eq!(metrics.sum("connect_batch_events_sum", &[]), 16.0);
    assert_eq!(metrics.sum("connect_bundle_requests_sum", &[]), 16.0);
    assert_eq!(metrics.sum("connect_events_accepted_total", &[]), 16.0);
    let worker = world.workers[0].metrics().await;
    assert_eq!(worker.sum("connect_queue_lag_seconds_count", &[("queue", "events")]), 16.0);

    for response in &responses[..3] {
        let (event, id) = (&results(response)[0]["eventId"], response.header("x-request-id"));
        for id in [id.to_owned(), id.replace('-', "")] {
            let found = world.connectctl.list(&["find", &id]).await;
            let is_applied = |step: &Value| step["stage"] == "applied" && step["eventId"] == *event;
            assert!(found.iter().any(is_applied), "{id}: {found:?}");
        }
    }

    // Sequential requests have a message each.
    for request in identified_each(&world.key, 4) {
        results(&world.http().send(&request).await);
    }
    let metrics = world.ingests[0].metrics().await;
    for (name, counted) in
        [("connect_publish_total", 6.0), ("connect_bundle_requests_count", 6.0), ("connect_bundle_requests_sum", 20.0)]
    {
        assert_eq!(metrics.sum(name, &[]), counted, "{name}");
    }
}

#[tokio::test]
async fn each_request_of_a_bundle_gets_its_own_counts_and_repeats_are_duplicates() {
    let world = stallable().start().await;
    let shared = event("enquiry.submitted").email("ana@example.com");
    let unknown = event("contact.updated").email("nobody@example.com");
    let several = batch(&[event("contact.identified").email("bo@example.com"), unknown, shared.clone()]);
    let spaced = format!("{{ \"events\" : [ {} ] }}", shared.to_json());
    let rest = [world.key.events(several), world.key.events(spaced), identified(&world.key, "cy@example.com")];
    let first = [identified(&world.key, "first@example.com")];
    let responses = send_during_a_publish(&world, &first, &rest).await;
    let statuses = |response| -> Vec<String> {
        results(response).iter().map(|result| text(&result["status"]).to_owned()).collect()
    };
    // Their order of arrival is unknown: either of the two may have been the first.
    let (several, spaced) = (statuses(&responses[1]), statuses(&responses[2]));
    assert_eq!(several[..2], ["accepted", "failed"]);
    let mut repeated = [several[2].as_str(), spaced[0].as_str()];
    repeated.sort_unstable();
    assert_eq!(repeated, ["accepted", "duplicate"]);
    for id in ["clientId", "leadId", "tripId"] {
        assert_eq!(results(&responses[1])[2][id], results(&responses[2])[0][id], "{id}");
    }
    assert_eq!(statuses(&responses[3]), ["accepted"]);
    assert_eq!(world.ingests[0].metrics().await.sum("connect_bundle_requests_count", &[]), 2.0);
}

#[tokio::test]
async fn a_lone_request_is_published_byte_for_byte() {
    let world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let sent = event("contact.identified").email("ana@example.com").to_json();
    let body = format!("{{\"other\": 1, \"events\" :\n[ {sent} ] }}");
    let response = world.http().send(&world.key.events(body.clone())).await;
    response.assert_error(503, "processing_timeout");
    let message = take_messages(&world, 1).await.remove(0);
    assert_eq!(String::from_utf8_lossy(&message.body), body);
    assert_eq!(message.meta_field("parts"), Value::Null);
    assert_eq!(message.id().as_deref(), Some(response.header("x-request-id")));
    assert_eq!(request_ids(&message), [response.header("x-request-id")]);
}

#[tokio::test]
async fn different_keys_and_tenants_never_share_a_message() {
    let mut world = stallable().workers(0).start().await;
    let other_agency = world.add_tenant("other").await;
    let other_key = world.add_key("events:ingest").await;
    let own = identified_each(&world.key, 4);
    let others = identified_each(&other_key, 4);
    let of_other = |email: &str| event("contact.identified").tenant("other").email(email);
    let others_agency: Vec<HttpRequest> =
        (0..4).map(|i| other_agency.events(batch(&[of_other(&format!("{i}@example.com"))]))).collect();
    let requests = [&own[..], &others, &others_agency];
    let first: Vec<HttpRequest> = requests.iter().map(|requests| requests[0].clone()).collect();
    let rest: Vec<HttpRequest> = requests.iter().flat_map(|requests| requests[1..].to_vec()).collect();
    let mut messages = Vec::new();
    let responses = send_and_take_messages(&mut world, &first, &rest, async |world, taken| {
        world.queues.publish_all("events", &taken).await;
        messages = taken;
    })
    .await;
    for response in &responses {
        assert_eq!(results(response)[0]["status"], "accepted");
    }
    assert_eq!(messages.len(), 6, "one for each first request, and one for the requests that waited behind it");
    for message in &messages {
        let key = message.meta_field("caller")["key"].clone();
        let count = request_ids(message).len();
        assert!([1, 3].contains(&count), "{count} of {key}");
        let is_of = |requests: &[HttpRequest]| {
            let sent: Vec<Value> = requests.iter().flat_map(events_of).collect();
            events_in(message).iter().all(|event| sent.contains(event))
        };
        let owner = requests.iter().position(|requests| is_of(requests)).expect("events of one key only");
        let prefixes = [&world.key, &other_key, &other_agency].map(|key| key.prefix.clone());
        assert_eq!(key, json!(prefixes[owner]));
    }
}

/// The events of all requests in a message.
fn events_in(message: &QueuedMessage) -> Vec<Value> {
    let bodies = match serde_json::from_str::<BundleMeta>(&message.header("x-connect-meta").expect("metadata")) {
        Ok(bundle) => bundle.split(&message.body).expect("parts").into_iter().map(|(_, body)| body).collect(),
        Err(_) => vec![message.body.as_slice()],
    };
    let events = |body| serde_json::from_slice::<Value>(body).expect("JSON")["events"].as_array().cloned();
    bodies.into_iter().filter_map(events).flatten().collect()
}

#[tokio::test]
async fn a_large_batch_is_published_alone_without_waiting() {
    let mut world = stallable().workers(0).start().await;
    let people: Vec<Event> = (0..11).map(|i| event("contact.identified").email(&format!("{i}@example.com"))).collect();
    let requests = [identified(&world.key, "ana@example.com"), world.key.events(batch(&people))];
    let large = requests[1].body.clone();
    let http = HttpClient::new(world.http().address());
    world.proxies().broker.stall();
    let driving = async {
        // Both are published while neither can be confirmed.
        until_published(&world.ingests[0], 2).await;
        world.proxies().broker.restore();
        let messages = take_messages(&world, 2).await;
        assert_eq!(messages.len(), 2);
        assert!(messages.iter().any(|message| message.body == large), "as it was sent");
        world.queues.publish_all("events", &messages).await;
        world.add_worker().await;
    };
    let (small, large, ()) = futures_util::join!(http.send(&requests[0]), http.send(&requests[1]), driving);
    assert_eq!((results(&small).len(), results(&large).len()), (1, 11));
}

#[tokio::test]
async fn a_bundle_has_at_most_a_hundred_events_and_the_rest_forms_the_next() {
    let mut world = stallable().workers(0).start().await;
    let person = |i: usize| event("contact.identified").email(&format!("{i}@example.com"));
    let several = |i: usize| world.key.events(batch(&[person(i), person(i + 1), person(i + 2)]));
    let requests: Vec<HttpRequest> = (0..46).map(|i| several(3 * i)).collect();
    let (first, rest) = requests.split_at(1);
    let responses = send_and_take_messages(&mut world, first, rest, async |world, messages| {
        let counts: Vec<usize> = messages.iter().map(|message| request_ids(message).len()).collect();
        // 45 requests of three events each waited.
        assert_eq!(counts, [1, 33, 12]);
        assert_eq!(events_in(&messages[1]).len(), 99);
        world.queues.publish_all("events", &messages).await;
    })
    .await;
    for (request, response) in requests.iter().zip(&responses) {
        let told: Vec<Value> = results(response).iter().map(|result| result["eventId"].clone()).collect();
        let sent: Vec<Value> = events_of(request).iter().map(|event| event["eventId"].clone()).collect();
        assert_eq!(told, sent);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 3 * 46);
}
