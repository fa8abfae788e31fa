//! Envelopes to send.

use crate::world::slug;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// An envelope under construction. A new one is valid except for its actor, which has no identity yet.
#[derive(Clone, Debug)]
pub struct Event(Map<String, Value>);

/// An event of that type with an id of its own, of the tenant `acme`.
pub fn event(event_type: &str) -> Event {
    let envelope = json!({
        "specVersion": "1.0",
        "eventId": format!("e-{}", Uuid::now_v7()),
        "eventType": event_type,
        "occurredAt": "2026-05-01T10:00:00Z",
        "tenant": slug("acme"),
        "origin": "website",
        "actor": {"type": "contact"},
    });
    Event(envelope.as_object().cloned().unwrap_or_default())
}

/// The body of a batch.
pub fn batch(events: &[Event]) -> Vec<u8> {
    let events: Vec<Value> = events.iter().map(Event::to_json).collect();
    json!({ "events": events }).to_string().into_bytes()
}

impl Event {
    /// Sets the field `eventId`.
    pub fn id(self, id: &str) -> Self {
        self.with("eventId", json!(id))
    }

    /// Sets the field `actor.email`.
    pub fn email(self, email: &str) -> Self {
        self.with_actor("email", json!(email))
    }

    /// Sets the field `actor.phone`.
    pub fn phone(self, phone: &str) -> Self {
        self.with_actor("phone", json!(phone))
    }

    /// Sets the field `actor.externalId`.
    pub fn external_id(self, id: &str) -> Self {
        self.with_actor("externalId", json!(id))
    }

    /// Sets the field `actor.name`.
    pub fn name(self, name: &str) -> Self {
        self.with_actor("name", json!(name))
    }

    /// Sets the field `tenant`.
    pub fn tenant(self, name: &str) -> Self {
        self.with("tenant", json!(slug(name)))
    }

    /// Sets the field `payload`.
    pub fn payload(self, payload: Value) -> Self {
        self.with("payload", payload)
    }

    /// Sets any field of the envelope.
    pub fn with(mut self, field: &str, value: Value) -> Self {
        self.0.insert(field.to_owned(), value);
        self
    }

    /// Removes a field of the envelope.
    pub fn without(mut self, field: &str) -> Self {
        self.0.remove(field);
        self
    }

    /// Sets any field of the actor.
    pub fn with_actor(mut self, field: &str, value: Value) -> Self {
        self.0["actor"][field] = value;
        self
    }

    /// The envelope's `eventId`.
    pub fn event_id(&self) -> &str {
        self.0["eventId"].as_str().expect("eventId is text")
    }

    /// The envelope as JSON, as it is sent.
    pub fn to_json(&self) -> Value {
        Value::Object(self.0.clone())
    }
}
