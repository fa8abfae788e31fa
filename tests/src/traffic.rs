//! Traffic of every kind, for tests of dashboards and alerts.

use crate::event::{Event, batch, event};
use crate::http::HttpRequest;
use crate::key::RECORDS;
use crate::queues::QueuedMessage;
use crate::world::World;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::sleep;
use uuid::Uuid;

/// Callers that send until they are dropped, whatever the response.
#[derive(Debug)]
pub struct TrafficGenerator<'w> {
    world: &'w World,
}

/// Rounds of all callers so far, so that each sends different data.
static ROUNDS: AtomicU64 = AtomicU64::new(0);

impl<'w> TrafficGenerator<'w> {
    /// TrafficGenerator of the tenant `acme` of `world`.
    pub fn of(world: &'w World) -> Self {
        Self { world }
    }

    /// Sends batches of events, `pause` apart, until it is dropped.
    pub async fn events(&self, pause: Duration) {
        loop {
            let round = ROUNDS.fetch_add(1, Ordering::Relaxed);
            self.send(&self.world.key.events(batch(&events(round)))).await;
            // Sometimes a signature that is not valid.
            if round.is_multiple_of(40) {
                let request = self.world.key.events(batch(&events(round)));
                self.send(&request.replacing("x-connect-tenant", "another")).await;
            }
            sleep(pause).await;
        }
    }

    /// Creates, reads and changes records, `pause` apart, until it is dropped.
    pub async fn records(&self, pause: Duration) {
        loop {
            let lead = self.create_lead().await;
            let target = format!("{RECORDS}/leads/{}", lead["id"].as_str().unwrap_or("none"));
            let (key, change) = (&self.world.key, json!({"stage": "follow_up"}).to_string());
            self.send(&key.records("GET", &target, "")).await;
            self.send(&key.records("PATCH", &target, change.clone())).await;
            let stale =
                key.records("PATCH", &target, change).with("if-match", "\"2020-01-01T00:00:00.000Z\"");
            self.send(&stale).await;
            let trip = json!({"party": {"adults": 2}, "changeSummary": "two of us"}).to_string();
            self.send(&key.records("PATCH", &format!("{target}/trip"), trip)).await;
            let client = lead["clientId"].as_str().unwrap_or("none");
            self.send(&key.records("GET", &format!("{RECORDS}/clients/{client}"), "")).await;
            sleep(pause).await;
        }
    }

    /// Changes the stage of leads as advisors do, which causes webhooks; `pause` apart, until it is dropped.
    pub async fn advisors(&self, pause: Duration) {
        loop {
            let lead = self.create_lead().await;
            let action =
                json!({"action": "stage", "tenant": "acme", "lead": lead["id"], "stage": "follow_up"});
            let message =
                QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
            self.world.queues.publish_message("crm", &message).await;
            sleep(pause).await;
        }
    }

    /// Creates a lead and returns it, or null.
    async fn create_lead(&self) -> Value {
        let round = ROUNDS.fetch_add(1, Ordering::Relaxed);
        let email = format!("caller{round}@example.com");
        let body = json!({"contact": {"email": email, "name": "Cara"}, "destination": "Lisbon"}).to_string();
        let request = self.world.key.records("POST", &format!("{RECORDS}/leads"), body);
        self.send(&request.with("idempotency-key", format!("order-{round}"))).await["data"].clone()
    }

    /// The response's body; null when there is none.
    async fn send(&self, request: &HttpRequest) -> Value {
        let response = self.world.http().try_send(request).await;
        response.ok().and_then(|response| serde_json::from_slice(&response.body).ok()).unwrap_or_default()
    }
}

/// A batch as partners send it: most events are about browsing.
fn events(round: u64) -> Vec<Event> {
    let types = ["contact.identified", "trip.planning_started", "trip.draft_updated", "quote.requested"];
    let looking = (0..round % 8).map(|n| {
        let kind = types[usize::try_from(n).unwrap_or_default() % types.len()];
        event(kind).email(&format!("traveller{}@example.com", (round + n) % 500))
    });
    let enquiry = event("enquiry.submitted").email(&format!("traveller{}@example.com", round % 500));
    let unknown = event("contact.updated").external_id("nobody").name("Nobody");
    looking.chain([enquiry]).chain(round.is_multiple_of(9).then_some(unknown)).collect()
}
