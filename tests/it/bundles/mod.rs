//! Bundles: requests of one caller that arrive while a publish is under way travel in one message.

mod broker;
mod disconnects;
mod grouping;
mod redelivery;
mod traces;
mod writes;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{
    ApiKey, Event, HttpClient, HttpRequest, HttpResponse, Program, QueuedMessage, World, WorldBuilder, batch, event,
    text,
};
use tokio::sync::oneshot;

/// A world whose broker can be made to hang, so that requests have to wait for a publish.
fn stallable() -> WorldBuilder {
    // Their requests also wait until the test has looked at the messages and started a worker.
    World::with().through_proxies().set("CONNECT_PUBLISH_TIMEOUT", "60s").set("CONNECT_REPLY_TIMEOUT", "110s")
}

/// A request with a single event.
fn identified(key: &ApiKey, email: &str) -> HttpRequest {
    key.events(batch(&[event("contact.identified").email(email)]))
}

/// `count` requests of `acme` with one event each, of different people.
fn identified_each(key: &ApiKey, count: usize) -> Vec<HttpRequest> {
    (0..count).map(|i| identified(key, &format!("{i}@example.com"))).collect()
}

/// Waits until that many requests have been handed to the queue's publisher.
async fn until_submitted(ingest: &Program, count: usize) {
    ingest.until_sum("connect_batch_events_count", &[], count as f64).await;
}

/// Waits until the messages of that many requests have been handed to the broker's connection.
async fn until_published(ingest: &Program, count: usize) {
    ingest.until_sum("connect_bundle_requests_sum", &[], count as f64).await;
}

/// Sends `first`, which the broker doesn't confirm until all of `rest` wait; returns the responses in that order. If `first`
/// has several requests, they must be of different keys.
///
/// Needs a [`stallable`] world, whose first requests these are.
async fn send_during_a_publish(world: &World, first: &[HttpRequest], rest: &[HttpRequest]) -> Vec<HttpResponse> {
    let http = HttpClient::new(world.http().address());
    world.proxies().broker.stall();
    let (open, opened) = oneshot::channel();
    let later = async {
        opened.await.expect("the sender is kept");
        join_all(rest.iter().map(|request| http.send(request))).await
    };
    let driving = async {
        until_published(&world.ingests[0], first.len()).await;
        open.send(()).expect("the receiver waits");
        until_submitted(&world.ingests[0], first.len() + rest.len()).await;
        world.proxies().broker.restore();
    };
    let firsts = join_all(first.iter().map(|request| http.send(request)));
    let (mut responses, later, ()) = futures_util::join!(firsts, later, driving);
    responses.extend(later);
    responses
}

/// The same in a world without workers. Passes the messages to `then`, which must see to it that the requests get replies.
async fn send_and_take_messages(
    world: &mut World, first: &[HttpRequest], rest: &[HttpRequest], then: impl AsyncFnOnce(&World, Vec<QueuedMessage>),
) -> Vec<HttpResponse> {
    let settings = world.settings().to_vec();
    let seen = &*world;
    let working = async {
        let messages = take_messages(seen, first.len() + rest.len()).await;
        then(seen, messages).await;
        Program::worker(&settings).await
    };
    let (responses, worker) = futures_util::join!(send_during_a_publish(seen, first, rest), working);
    world.workers.push(worker);
    responses
}

/// Takes the messages of so many requests out of the queue.
async fn take_messages(world: &World, requests: usize) -> Vec<QueuedMessage> {
    until_published(&world.ingests[0], requests).await;
    let published = world.ingests[0].metrics().await.sum("connect_bundle_requests_count", &[]);
    world.until_depth("events", published as u32).await;
    world.queues.take_all("events").await
}

/// The ids of the requests in a message, as in `X-Request-Id`.
fn request_ids(message: &QueuedMessage) -> Vec<String> {
    let parts = message.meta_field("parts");
    match parts.as_array() {
        Some(parts) => parts.iter().map(|part| text(&part["requestId"]).to_owned()).collect(),
        None => vec![text(&message.meta_field("requestId")).to_owned()],
    }
}

/// The results of a response, which must be 200 and have the right counts.
fn results(response: &HttpResponse) -> Vec<Value> {
    assert_eq!(response.status, 200, "{response:?}");
    let body = response.json();
    let results = body["results"].as_array().expect("results").clone();
    let count = |status: &str| results.iter().filter(|result| result["status"] == status).count();
    for status in ["accepted", "duplicate", "failed"] {
        assert_eq!(body[status], count(status), "{status} of {body}");
    }
    results
}

/// Checks that each response has exactly the accepted event of its own request.
fn assert_own_results(requests: &[HttpRequest], responses: &[HttpResponse]) {
    assert_eq!(requests.len(), responses.len());
    for (request, response) in requests.iter().zip(responses) {
        let sent: Value = serde_json::from_slice(&request.body).expect("JSON");
        let results = results(response);
        assert_eq!(results.len(), 1, "{results:?}");
        assert_eq!(results[0]["eventId"], sent["events"][0]["eventId"]);
        assert_eq!(results[0]["status"], "accepted", "{results:?}");
    }
}

fn events_of(request: &HttpRequest) -> Vec<Value> {
    let sent: Value = serde_json::from_slice(&request.body).expect("JSON");
    sent["events"].as_array().expect("events").clone()
}

/// An event that opens a lead.
fn enquiry_submitted(email: &str) -> Event {
    event("enquiry.submitted").email(email).payload(json!({}))
}
