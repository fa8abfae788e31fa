//! The result does not depend on how events are divided into batches, nor on how many batches share a unit of work.

use serde_json::{Value, json};
use std::collections::HashMap;
use tests::{ApiKey, Event, World, batch, event, text};

const EVENTS: usize = 100;
const PEOPLE: usize = 7;

/// Generates a varied sequence of events that is always the same.
struct EventGenerator(u64);

impl EventGenerator {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }

    fn event(&mut self, i: usize) -> Event {
        let kinds = common::event::InboundType::ALL;
        let kind = kinds[self.below(kinds.len())].as_str();
        let person = self.below(PEOPLE);
        let named = match self.below(4) {
            0 => event(kind).email(&format!("{person}@example.com")).external_id(&format!("x-{}", self.below(PEOPLE))),
            1 => event(kind).external_id(&format!("x-{person}")),
            2 => event(kind).phone(&format!("+1 555 {person}")),
            _ => event(kind).email(&format!("{person}@example.com")).phone(&format!("1555{}", self.below(PEOPLE))),
        };
        // Some ids are repeated.
        let id = if self.below(10) == 0 { self.below(i + 1) } else { i };
        named.id(&format!("e-{id}")).name(&format!("Name {i}")).payload(self.payload())
    }

    fn payload(&mut self) -> Value {
        let booking = format!("BR-{}", self.below(4));
        match self.below(4) {
            0 => {
                json!({"bookingRef": booking, "amount": 100, "creditUsed": 40, "appliedRupees": self.below(50)})
            }
            1 => {
                json!({"externalLeadId": format!("l-{}", self.below(5)), "paxCount": self.below(6), "message": "Hello"})
            }
            2 => {
                json!({"asOf": format!("2026-05-{:02}T10:00:00Z", 1 + self.below(28)), "availablePaise": self.below(900),
                "discovery": {"pax": self.below(9)}})
            }
            _ => {
                json!({"destination": format!("Place {}", self.below(3)), "discovery": {"tripNotes": "x"}, "essence": "y"})
            }
        }
    }
}

fn events(slug: &str) -> Vec<Event> {
    let mut mix = EventGenerator(42);
    (0..EVENTS).map(|i| mix.event(i).tenant(slug)).collect()
}

/// Sends batches one after the other, and returns all results.
async fn send(world: &World, key: &ApiKey, batches: &[&[Event]]) -> Vec<Value> {
    let mut results = Vec::new();
    for events in batches {
        let response = world.http().send(&key.events(batch(events))).await.assert_status(200);
        results.extend(response.json()["results"].as_array().expect("results").iter().cloned());
    }
    results
}

/// A value with ids replaced by the order of their first occurrence.
fn normalized(value: &Value, seen: &mut HashMap<String, usize>) -> Value {
    match value {
        Value::String(text) if text.len() == 36 && text.as_bytes()[8] == b'-' && text.as_bytes()[23] == b'-' => {
            let next = seen.len();
            json!(format!("id {}", seen.entry(text.clone()).or_insert(next)))
        }
        Value::Array(items) => items.iter().map(|item| normalized(item, seen)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, field)| (name.clone(), normalized(field, seen)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// All records of a tenant, in an order and form that do not depend on ids and times.
async fn records(world: &World, slug: &str) -> Vec<(&'static str, Vec<Value>)> {
    let client = "(SELECT coalesce(email_key, external_id, phone_digits) FROM clients c WHERE c.tenant_id = r.tenant_id AND c.client_id = r.client_id) AS client";
    let tables = [
        ("clients", "r.name, r.email, r.phone, r.external_id, r.client_type".to_owned(), "client_id"),
        ("leads", format!("{client}, r.external_id, r.title, r.stage, r.follow_up, r.attribution"), "lead_id"),
        ("trips", "r.title, r.brief".to_owned(), "trip_id"),
        ("timeline", format!("{client}, r.event_id, r.event_type, r.payload"), "entry_id"),
        ("inbox_messages", "r.kind, r.text".to_owned(), "message_id"),
        ("notifications", "r.kind".to_owned(), "notification_id"),
        (
            "invoices",
            format!(
                "{client}, r.booking_ref, r.amount, r.credit_used, r.credit_applied, r.credit_state, r.balance_due"
            ),
            "booking_ref",
        ),
        ("discoveries", format!("{client}, r.discovery"), "discovery_id"),
        ("traveller_profiles", format!("{client}, r.profile, r.essence"), "client_id"),
        ("client_credits", format!("{client}, r.as_of, r.available_paise"), "client_id"),
        ("event_ledger", format!("{client}, r.event_id, r.event_type, r.warnings"), "event_id"),
    ];
    let mut all = Vec::new();
    for (table, columns, order) in tables {
        let query = format!(
            "SELECT {columns} FROM {table} r JOIN tenants t USING (tenant_id) WHERE slug = $1 ORDER BY r.{order}"
        );
        all.push((table, world.database.rows(&query, &[&tests::slug(slug)]).await));
    }
    all
}

#[tokio::test]
async fn the_effect_of_events_depends_neither_on_their_batches_nor_on_their_units() {
    let mut world = World::with()
        .workers(0)
        .set("CONNECT_REPLY_TIMEOUT", "100ms")
        // All batches must be admitted while there is no worker.
        .set("CONNECT_BACKLOG_TARGET", "60s")
        .set("CONNECT_WORKER_LANES", "1")
        .start()
        .await;
    let mut keys = Vec::new();
    for slug in ["single", "batch", "backlog"] {
        keys.push(world.add_tenant(slug).await);
        world.connectctl.json(&["tenant", "set", "--tenant", slug, "--discovery", "true"]).await;
    }
    for events in events("backlog").chunks(6) {
        world.http().send(&keys[2].events(batch(events))).await.assert_error(503, "processing_timeout");
    }
    world.set("CONNECT_REPLY_TIMEOUT", "30s");
    world.add_worker().await;
    world.restart_ingest().await;
    world.until_depth("events", 0).await;
    let (single, together) = (events("single"), events("batch"));
    let singles: Vec<&[Event]> = single.chunks(1).collect();
    // These are applied after the backlog, because there is only one lane.
    let first = send(&world, &keys[0], &singles).await;
    let second = send(&world, &keys[1], &[&together]).await;
    let (mut seen_first, mut seen_second) = (HashMap::new(), HashMap::new());
    for (first, second) in first.iter().zip(&second) {
        assert_eq!(normalized(first, &mut seen_first), normalized(second, &mut seen_second));
    }
    let statuses: Vec<&str> = first.iter().map(|result| text(&result["status"])).collect();
    for status in ["accepted", "duplicate", "failed"] {
        assert!(statuses.contains(&status), "the mix has no {status}");
    }
    let expected = records(&world, "single").await;
    for slug in ["batch", "backlog"] {
        for ((table, single), (_, other)) in expected.iter().zip(&records(&world, slug).await) {
            assert_eq!(single, other, "{slug}: {table}");
        }
    }
}
