//! Every outbound type by every path that emits it, as it is received (specification: Outbound webhook events; D12, D16,
//! D24, D25).

mod emitted;
mod silent;

use super::{Outbound, Subscription};
use common::clock;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tests::{Event, RECORDS, Received, event, text};
use uuid::Uuid;

/// When the events of these tests happened; they come from `website`.
const HAPPENED: &str = "2026-05-01T10:00:00.000Z";

/// A subscriber who hears of everything.
struct Listener {
    outbound: Outbound,
    subscription: Subscription,
    /// Since when, as times are written.
    since: String,
}

/// What is to be heard: type, origin, and the facts beyond those that all payloads carry.
type Told<'a> = (&'a str, &'a str, Value);

/// An event of Ana's, of whom everything is known.
fn ana(event_type: &str) -> Event {
    event(event_type).email("ana@example.com").name("Ana").phone("+91 98200 12345").external_id("p-7")
}

/// A change of stage.
fn step<'a>(origin: &'a str, from: &str, to: &str, reason: Option<&str>) -> Told<'a> {
    ("lead.stage_changed", origin, json!({"from": from, "to": to, "reason": reason}))
}

impl Listener {
    async fn start() -> Self {
        let outbound = Outbound::start().await;
        let subscription = outbound.subscribe("/hooks?site=1", &[]).await;
        Self { outbound, subscription, since: clock::to_text(clock::now()) }
    }

    /// An enquiry of Ana's, of which everything is heard already.
    async fn enquiry(&self) -> Value {
        let payload = json!({"externalLeadId": "x-1"});
        let opened = self.outbound.world.accept(ana("enquiry.submitted").payload(payload)).await;
        assert_eq!(self.outbound.came().await.len(), 1);
        opened
    }

    /// Does an advisor's action and gives the answer.
    async fn advise(&self, words: &[&str]) -> Value {
        self.outbound.world.connectctl.json(&[&["advisor"], words, &["--tenant", "acme"]].concat()).await
    }

    /// Writes to a records route, and gives the record.
    async fn write(&self, method: &str, route: &str, body: &Value) -> Value {
        let world = &self.outbound.world;
        let request = world.key.records(method, &format!("{RECORDS}{route}"), body.to_string());
        let answer = world.http().send(&request.with("idempotency-key", Uuid::now_v7().to_string())).await;
        assert!([200, 201].contains(&answer.status), "{method} {route}: {answer:?}");
        answer.json()["data"].clone()
    }

    async fn patch(&self, of: &Value, body: &Value) -> Value {
        self.write("PATCH", &format!("/leads/{}", text(&of["leadId"])), body).await
    }

    /// Checks that exactly this was heard since it was last checked, all of it about one enquiry.
    async fn assert_told(&self, of: &Value, expected: &[Told<'_>]) {
        let came = self.outbound.came().await;
        let types: Vec<&str> = came.iter().map(|webhook| webhook.header("x-connect-event")).collect();
        let expected_types: Vec<&str> = expected.iter().map(|(event_type, _, _)| *event_type).collect();
        assert_eq!(types, expected_types);
        let lead = self.outbound.world.lead(&of["leadId"]).await;
        let client = self.outbound.world.client(&lead["clientId"]).await;
        for (webhook, (event_type, origin, facts)) in came.iter().zip(expected) {
            self.check_request(webhook);
            check_envelope(&webhook.json(), event_type, origin, &client);
            self.check_time(&webhook.json());
            assert_eq!(webhook.json()["payload"], payload(&lead, facts), "{event_type}");
        }
    }

    /// When an event from a website happened is said by it; all else happens now.
    fn check_time(&self, envelope: &Value) {
        let occurred_at = text(&envelope["occurredAt"]);
        if envelope["origin"] == "website" {
            assert_eq!(occurred_at, HAPPENED);
        } else {
            let now = clock::to_text(clock::now());
            assert!((self.since.as_str()..=now.as_str()).contains(&occurred_at), "{occurred_at}");
        }
    }

    /// Headers and signature (specification: Delivery request).
    fn check_request(&self, webhook: &Received) {
        assert_eq!((webhook.method(), webhook.target()), ("POST", "/hooks?site=1"));
        assert_eq!(webhook.verify(&self.subscription.secret), Ok(()));
        assert_eq!(webhook.header("content-type"), "application/json");
        assert_eq!(webhook.header("x-connect-tenant"), "acme");
        assert_eq!(webhook.header("x-connect-event"), text(&webhook.json()["eventType"]));
        assert!(Uuid::parse_str(webhook.header("x-connect-delivery")).is_ok(), "{}", webhook.head);
        let signature = webhook.header("x-connect-signature");
        let exact = signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1="));
        let (t, mac) = exact.unwrap_or_else(|| panic!("{signature}"));
        assert!(t.bytes().all(|b| b.is_ascii_digit()) && mac.len() == 64, "{signature}");
        assert!(mac.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{signature}");
    }
}

/// The envelope (specification: Event envelope), its actor the client.
#[track_caller]
fn check_envelope(envelope: &Value, event_type: &str, origin: &str, client: &Value) {
    let fields: BTreeSet<&str> =
        envelope.as_object().expect("an object").keys().map(String::as_str).collect();
    let all = ["specVersion", "eventId", "eventType", "occurredAt", "tenant", "origin", "actor", "payload"];
    assert_eq!(fields, BTreeSet::from(all));
    assert_eq!((&envelope["specVersion"], &envelope["tenant"]), (&json!("1.0"), &json!("acme")));
    assert_eq!((&envelope["eventType"], &envelope["origin"]), (&json!(event_type), &json!(origin)));
    assert!(Uuid::parse_str(text(&envelope["eventId"])).is_ok(), "{envelope}");
    let mut actor = json!({"type": "contact", "name": client["name"]});
    for (field, column) in [("email", "email"), ("phone", "phone"), ("externalId", "external_id")] {
        if !client[column].is_null() {
            actor[field] = client[column].clone();
        }
    }
    assert_eq!(envelope["actor"], actor);
}

/// What all payloads carry of an enquiry, where it exists, and these facts; nothing else.
fn payload(lead: &Value, facts: &Value) -> Value {
    let mut payload: Map<String, Value> = facts.as_object().expect("facts").clone();
    for (field, of) in [
        ("leadId", "id"),
        ("tripId", "tripId"),
        ("clientId", "clientId"),
        ("enquiryNumber", "enquiryNumber"),
        ("externalId", "externalId"),
    ] {
        if let Some(value) = lead.get(of).filter(|value| !value.is_null()) {
            payload.insert(field.to_owned(), value.clone());
        }
    }
    Value::Object(payload)
}
