//! Every outbound type by every path that emits it, as it is received (specification: Outbound webhook events; D12,
//! D16, D24, D25).

mod emitted;

use super::{OutboundWorld, Subscription};
use common::clock;
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use tests::{Event, RECORDS, ReceivedRequest, event, text};
use uuid::Uuid;

/// `occurredAt` of the events of these tests, whose origin is `website`.
const HAPPENED: &str = "2026-05-01T10:00:00.000Z";

/// A subscription to all event types.
struct Subscriber {
    outbound: OutboundWorld,
    subscription: Subscription,
    /// When it was created, as text.
    since: String,
    /// The last version that was received of each lead, by the lead's id.
    versions: RefCell<HashMap<String, String>>,
}

/// An expected event: type, origin, and the fields of its payload beyond the common ones.
type ExpectedEvent<'a> = (&'a str, &'a str, Value);

/// An event of Ana's with all identities.
fn ana(event_type: &str) -> Event {
    event(event_type).email("ana@example.com").name("Ana").phone("+91 98200 12345").external_id("p-7")
}

fn stage_change<'a>(origin: &'a str, from: &str, to: &str, reason: Option<&str>) -> ExpectedEvent<'a> {
    ("lead.stage_changed", origin, json!({"from": from, "to": to, "reason": reason}))
}

impl Subscriber {
    async fn start() -> Self {
        let outbound = OutboundWorld::shared().await;
        let subscription = outbound.subscribe("/hooks?site=1", &[]).await;
        Self { outbound, subscription, since: clock::to_text(clock::now()), versions: RefCell::default() }
    }

    /// Opens a lead of Ana's and receives its `lead.assigned`.
    async fn open_lead(&self) -> Value {
        let payload = json!({"externalLeadId": "x-1"});
        let opened = self.outbound.world.accept(ana("enquiry.submitted").payload(payload)).await;
        assert_eq!(self.outbound.take_received().await.len(), 1);
        opened
    }

    /// Runs an advisor action and returns its result.
    async fn act(&self, words: &[&str]) -> Value {
        self.outbound.world.connectctl.json(&[&["advisor"], words, &["--tenant", "acme"]].concat()).await
    }

    async fn write(&self, method: &str, route: &str, body: &Value) -> Value {
        let world = &self.outbound.world;
        let request = world.key.records(method, &format!("{RECORDS}{route}"), body.to_string());
        let response = world.http().send(&request.with("idempotency-key", Uuid::now_v7().to_string())).await;
        assert!([200, 201].contains(&response.status), "{method} {route}: {response:?}");
        response.json()["data"].clone()
    }

    async fn patch(&self, of: &Value, body: &Value) -> Value {
        self.write("PATCH", &format!("/leads/{}", text(&of["leadId"])), body).await
    }

    /// Checks that exactly these events were received since the last check, all of them about one lead.
    async fn assert_emitted(&self, of: &Value, expected: &[ExpectedEvent<'_>]) {
        let came = self.outbound.take_received().await;
        let types: Vec<&str> = came.iter().map(|webhook| webhook.header("x-connect-event")).collect();
        let expected_types: Vec<&str> = expected.iter().map(|(event_type, _, _)| *event_type).collect();
        assert_eq!(types, expected_types);
        let lead = self.outbound.world.lead(&of["leadId"]).await;
        let client = self.outbound.world.client(&lead["clientId"]).await;
        let mut versions = self.versions.borrow_mut();
        let last = versions.entry(text(&of["leadId"]).to_owned()).or_default();
        for (webhook, (event_type, origin, facts)) in came.iter().zip(expected) {
            self.check_request(webhook);
            check_envelope(&webhook.json(), event_type, origin, &client);
            self.check_time(&webhook.json());
            let mut told = webhook.json()["payload"].take();
            let version = told.as_object_mut().and_then(|told| told.remove("version")).expect("a version");
            assert!(last.as_str() < text(&version), "{event_type}: {last} {version}");
            text(&version).clone_into(last);
            assert_eq!(told, payload(&lead, facts), "{event_type}");
        }
        assert!(expected.is_empty() || *last == text(&lead["updatedAt"]), "{last} {lead}");
    }

    /// Events from the website keep their `occurredAt`; all others have the current time.
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
    fn check_request(&self, webhook: &ReceivedRequest) {
        assert_eq!((webhook.method(), webhook.target()), ("POST", "/hooks?site=1"));
        assert_eq!(webhook.verify(&self.subscription.secret), Ok(()));
        assert_eq!(webhook.header("content-type"), "application/json");
        assert_eq!(webhook.header("x-connect-tenant"), tests::slug("acme"));
        assert_eq!(webhook.header("x-connect-event"), text(&webhook.json()["eventType"]));
        assert!(Uuid::parse_str(webhook.header("x-connect-delivery")).is_ok(), "{}", webhook.head);
        let signature = webhook.header("x-connect-signature");
        let exact = signature.strip_prefix("t=").and_then(|rest| rest.split_once(",v1="));
        let (t, mac) = exact.unwrap_or_else(|| panic!("{signature}"));
        assert!(t.bytes().all(|b| b.is_ascii_digit()) && mac.len() == 64, "{signature}");
        assert!(mac.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)), "{signature}");
    }
}

/// Checks the envelope (specification: Event envelope); its actor is the client.
#[track_caller]
fn check_envelope(envelope: &Value, event_type: &str, origin: &str, client: &Value) {
    let fields: BTreeSet<&str> = envelope.as_object().expect("an object").keys().map(String::as_str).collect();
    let all = ["specVersion", "eventId", "eventType", "occurredAt", "tenant", "origin", "actor", "payload"];
    assert_eq!(fields, BTreeSet::from(all));
    assert_eq!((&envelope["specVersion"], &envelope["tenant"]), (&json!("1.0"), &json!(tests::slug("acme"))));
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

/// A payload with the common fields of a lead, as far as it has them, and these fields.
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
