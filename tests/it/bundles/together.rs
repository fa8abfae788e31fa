//! What travels together, and what doesn't.

use super::{
    assert_own_results, events_of, identified, identified_each, request_ids, results, send_during_a_publish,
    stallable, take_messages, until_published, with_messages,
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::event::batch;
use tests::{Event, Http, Outgoing, QueuedMessage, World, event, text};

#[tokio::test]
async fn requests_that_arrive_during_a_publish_share_one_message_and_get_their_own_results() {
    let world = stallable().start().await;
    let requests = identified_each(&world.key, 16);
    let (first, rest) = requests.split_at(1);
    let answers = send_during_a_publish(&world, first, rest).await;
    assert_own_results(&requests, &answers);
    let ids: BTreeSet<&str> = answers.iter().map(|answer| answer.header("x-request-id")).collect();
    assert_eq!(ids.len(), requests.len());
    let metrics = world.ingests[0].metrics().await;
    let answered = [("queue", "events"), ("outcome", "answered")];
    assert_eq!(metrics.sum("connect_publish_total", &answered), 2.0);
    assert_eq!(metrics.sum("connect_reply_wait_seconds_count", &[("queue", "events")]), 2.0);
    assert_eq!(metrics.sum("connect_batch_events_sum", &[]), 16.0);
    assert_eq!(metrics.sum("connect_bundle_requests_sum", &[]), 16.0);
    let worker = world.workers[0].metrics().await;
    assert_eq!(worker.sum("connect_queue_lag_seconds_count", &[("queue", "events")]), 16.0);
}

#[tokio::test]
async fn each_request_of_a_bundle_gets_its_counts_and_a_repeated_event_is_a_duplicate_in_the_other() {
    let world = stallable().start().await;
    let shared = event("enquiry.submitted").email("ana@example.com");
    let unknown = event("contact.updated").email("nobody@example.com");
    let several = batch(&[event("contact.identified").email("bo@example.com"), unknown, shared.clone()]);
    let spaced = format!("{{ \"events\" : [ {} ] }}", shared.to_json());
    let rest =
        [world.key.events(several), world.key.events(spaced), identified(&world.key, "cy@example.com")];
    let first = [identified(&world.key, "first@example.com")];
    let answers = send_during_a_publish(&world, &first, &rest).await;
    let statuses = |answer| -> Vec<String> {
        results(answer).iter().map(|result| text(&result["status"]).to_owned()).collect()
    };
    // The order in which they arrived isn't known: either of the two may have been the first.
    let (several, spaced) = (statuses(&answers[1]), statuses(&answers[2]));
    assert_eq!(several[..2], ["accepted", "failed"]);
    let mut repeated = [several[2].as_str(), spaced[0].as_str()];
    repeated.sort_unstable();
    assert_eq!(repeated, ["accepted", "duplicate"]);
    for id in ["clientId", "leadId", "tripId"] {
        assert_eq!(results(&answers[1])[2][id], results(&answers[2])[0][id], "{id}");
    }
    assert_eq!(statuses(&answers[3]), ["accepted"]);
    assert_eq!(world.ingests[0].metrics().await.sum("connect_bundle_requests_count", &[]), 2.0);
}

#[tokio::test]
async fn one_connection_sends_one_message_for_each_request() {
    let world = World::start().await;
    for request in identified_each(&world.key, 20) {
        results(&world.http().send(&request).await);
    }
    let metrics = world.ingests[0].metrics().await;
    for name in ["connect_publish_total", "connect_bundle_requests_count", "connect_bundle_requests_sum"] {
        assert_eq!(metrics.sum(name, &[]), 20.0, "{name}");
    }
}

#[tokio::test]
async fn a_lone_request_is_published_as_it_was_sent() {
    let world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "300ms").start().await;
    let sent = event("contact.identified").email("ana@example.com").to_json();
    let body = format!("{{\"other\": 1, \"events\" :\n[ {sent} ] }}");
    let answer = world.http().send(&world.key.events(body.clone())).await;
    answer.assert_error(503, "processing_timeout");
    let message = take_messages(&world, 1).await.remove(0);
    assert_eq!(String::from_utf8_lossy(&message.body), body);
    assert_eq!(message.meta_field("parts"), Value::Null);
    assert_eq!(message.id().as_deref(), Some(answer.header("x-request-id")));
    assert_eq!(request_ids(&message), [answer.header("x-request-id")]);
}

#[tokio::test]
async fn keys_and_agencies_never_share_a_message() {
    let mut world = stallable().workers(0).start().await;
    let other_agency = world.add_tenant("other").await;
    let other_key = world.add_key("events:ingest").await;
    let own = identified_each(&world.key, 4);
    let others = identified_each(&other_key, 4);
    let of_other = |email: &str| event("contact.identified").tenant("other").email(email);
    let others_agency: Vec<Outgoing> =
        (0..4).map(|i| other_agency.events(batch(&[of_other(&format!("{i}@example.com"))]))).collect();
    let requests = [&own[..], &others, &others_agency];
    let first: Vec<Outgoing> = requests.iter().map(|requests| requests[0].clone()).collect();
    let rest: Vec<Outgoing> = requests.iter().flat_map(|requests| requests[1..].to_vec()).collect();
    let mut messages = Vec::new();
    let answers = with_messages(&mut world, &first, &rest, async |world, taken| {
        world.queues.put_all("events", &taken).await;
        messages = taken;
    })
    .await;
    for answer in &answers {
        assert_eq!(results(answer)[0]["status"], "accepted");
    }
    assert_eq!(messages.len(), 6, "one for each first request, one for what waited with each");
    for message in &messages {
        let key = message.meta_field("caller")["key"].clone();
        let count = request_ids(message).len();
        assert!([1, 3].contains(&count), "{count} of {key}");
        let is_of = |requests: &[Outgoing]| {
            let sent: Vec<Value> = requests.iter().flat_map(events_of).collect();
            events_in(message).iter().all(|event| sent.contains(event))
        };
        let owner = requests.iter().position(|requests| is_of(requests)).expect("events of one key only");
        let prefixes = [&world.key, &other_key, &other_agency].map(|key| key.prefix.clone());
        assert_eq!(key, json!(prefixes[owner]));
    }
}

fn events_in(message: &QueuedMessage) -> Vec<Value> {
    let body: Value = serde_json::from_slice(&message.body).expect("JSON");
    body["events"].as_array().expect("events").clone()
}

#[tokio::test]
async fn a_batch_of_many_events_travels_alone_and_waits_for_no_publish() {
    let mut world = stallable().workers(0).start().await;
    let people: Vec<Event> =
        (0..11).map(|i| event("contact.identified").email(&format!("{i}@example.com"))).collect();
    let requests = [identified(&world.key, "ana@example.com"), world.key.events(batch(&people))];
    let large = requests[1].body.clone();
    let http = Http::new(world.http().address());
    world.proxies().broker.stall();
    let driving = async {
        // Both are handed to the connection while neither can be confirmed.
        until_published(&world.ingests[0], 2).await;
        world.proxies().broker.restore();
        let messages = take_messages(&world, 2).await;
        assert_eq!(messages.len(), 2);
        assert!(messages.iter().any(|message| message.body == large), "as it was sent");
        world.queues.put_all("events", &messages).await;
        world.add_worker().await;
    };
    let (small, large, ()) = futures_util::join!(http.send(&requests[0]), http.send(&requests[1]), driving);
    assert_eq!((results(&small).len(), results(&large).len()), (1, 11));
}

#[tokio::test]
async fn a_bundle_has_at_most_a_hundred_events_and_the_rest_is_the_next() {
    let mut world = stallable().workers(0).start().await;
    let person = |i: usize| event("contact.identified").email(&format!("{i}@example.com"));
    let several = |i: usize| world.key.events(batch(&[person(i), person(i + 1), person(i + 2)]));
    let requests: Vec<Outgoing> = (0..46).map(|i| several(3 * i)).collect();
    let (first, rest) = requests.split_at(1);
    let answers = with_messages(&mut world, first, rest, async |world, messages| {
        let counts: Vec<usize> = messages.iter().map(|message| request_ids(message).len()).collect();
        // 45 of three events each waited.
        assert_eq!(counts, [1, 33, 12]);
        assert_eq!(messages[1].meta_field("events"), 99);
        world.queues.put_all("events", &messages).await;
    })
    .await;
    for (request, answer) in requests.iter().zip(&answers) {
        let told: Vec<Value> = results(answer).iter().map(|result| result["eventId"].clone()).collect();
        let sent: Vec<Value> = events_of(request).iter().map(|event| event["eventId"].clone()).collect();
        assert_eq!(told, sent);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 3 * 46);
}
