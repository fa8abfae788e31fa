//! Each query of the dashboard has data when the programs are busy.

use super::repository_text;
use crate::records::records_target;
use serde_json::{Value, json};
use std::time::Duration;
use tests::event::batch;
use tests::{Behavior, HttpRequest, Prometheus, QueuedMessage, Receiver, World, event, eventually};
use uuid::Uuid;

/// Panels without data in ordinary traffic. The other panels must have data without the `or vector(..)` of their query.
const RARE: [&str; 2] = ["Alerts firing", "Spans of traces"];
/// The panel that is empty when all is well.
const FIRING: &str = "Which alerts fire";
/// Longest wait for data.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// The queries of a panel, with what Grafana puts in place of its variables.
fn queries(panel: &Value) -> Vec<String> {
    let targets = panel["targets"].as_array().into_iter().flatten();
    targets.map(|target| tests::text(&target["expr"]).replace("$__rate_interval", "10s")).collect()
}

#[tokio::test]
async fn every_panels_query_has_data_when_the_programs_are_busy() {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let builder = builder.set("CONNECT_WEBHOOK_BACKOFF_BASE", "100ms").set("CONNECT_WEBHOOK_ATTEMPTS", "3");
    let builder = builder.set("CONNECT_RETENTION_DELIVERIES", "30d");
    let world = builder.start().await;
    let receiver = Receiver::http();
    receiver.respond("/down", Behavior::status(503));
    for path in ["/hooks", "/down"] {
        let url = receiver.url(path);
        world.subscribe(&url).await;
    }
    let prometheus = Prometheus::start().await;
    prometheus.watch(&world);

    let looking = async {
        let dashboard: Value =
            serde_json::from_str(&repository_text("ops/grafana/connect.json")).expect("a dashboard in JSON");
        for panel in dashboard["panels"].as_array().expect("panels") {
            let title = tests::text(&panel["title"]);
            for query in queries(panel).iter().filter(|_| title != FIRING) {
                let query = if RARE.contains(&title) { query } else { without_alternative(query) };
                has_data(&prometheus, title, query).await;
            }
        }
    };
    tokio::select! {
        () = send_everything(&world) => {}
        () = looking => {}
    }
}

/// Sends events, requests to the records API and advisor actions, one after the other, whatever the response.
async fn send_everything(world: &World) {
    let key = &world.key;
    for round in 0_u64.. {
        let email = format!("traveller{}@example.com", round % 500);
        let kinds = ["contact.identified", "trip.planning_started", "quote.requested", "enquiry.submitted"];
        let unknown = event("contact.updated").external_id("nobody").name("Nobody");
        let events = batch(&[&kinds.map(|kind| event(kind).email(&email))[..], &[unknown]].concat());
        send(world, &key.events(events.clone())).await;
        send(world, &key.events(events).replacing("x-connect-tenant", "another")).await;
        let body = json!({"contact": {"email": email, "name": "Cara"}, "destination": "Lisbon"}).to_string();
        let create = key.records("POST", &records_target("/leads"), body);
        let lead = send(world, &create.with("idempotency-key", round.to_string())).await["data"].clone();
        let target = records_target(&format!("/leads/{}", lead["id"].as_str().unwrap_or("none")));
        send(world, &key.records("GET", &target, "")).await;
        let change = || key.records("PATCH", &target, json!({"stage": "follow_up"}).to_string());
        send(world, &change()).await;
        send(world, &change().with("if-match", "\"2020-01-01T00:00:00.000Z\"")).await;
        let action = json!({"action": "stage", "tenant": "acme", "lead": lead["id"], "stage": "negotiation"});
        let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
        world.queues.publish_message("crm", &message).await;
    }
}

/// The response's body; null when there is none.
async fn send(world: &World, request: &HttpRequest) -> Value {
    let response = world.http().try_send(request).await;
    response.ok().and_then(|response| serde_json::from_slice(&response.body).ok()).unwrap_or_default()
}

/// A query without the value that it gives where there is no data.
fn without_alternative(query: &str) -> &str {
    query.split_once(" or vector(").map_or(query, |(query, _)| query)
}

async fn has_data(prometheus: &Prometheus, title: &str, query: &str) {
    eventually(&format!("{title}: {query} has data"), MAX_WAIT, async || {
        let series = prometheus.query(query).await;
        if series.iter().any(|series| series.value.is_finite()) { Ok(()) } else { Err(format!("{series:?}")) }
    })
    .await;
}
