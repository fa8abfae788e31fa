//! One of everything that partners, integrators, advisors and operators do, for one person after the other.

use crate::records::patch_of;
use serde_json::{Value, json};
use tests::{Event, Outgoing, QueuedMessage, RECORDS, World, event, text};
use uuid::Uuid;

/// Requests and commands of one round, without those of [`commands`].
pub(super) const REQUESTS: i64 = 13 + 5 + 7 + 7;

/// Events of one call of [`lead_events`].
pub(super) const LEAD_EVENTS: i64 = 5;

/// Does everything once, for the person of that number.
pub(super) async fn round(world: &World, number: usize) {
    let person = Person { email: format!("round{number}@company{number}.example"), number };
    let opened = events(world, &person).await;
    writes(world, &person, &opened).await;
    actions(world, &opened).await;
    reads(world, &person, &opened).await;
}

struct Person {
    email: String,
    number: usize,
}

impl Person {
    fn event(&self, kind: &str) -> Event {
        let number = self.number;
        event(kind)
            .email(&self.email)
            .external_id(&format!("round-{number}"))
            .phone(&format!("+1 555 {number}"))
    }
}

async fn events(world: &World, person: &Person) -> Value {
    let booking = json!({"bookingRef": format!("ref-{}", person.number), "amount": 1000, "currency": "INR",
                         "creditUsed": 500, "externalLeadId": format!("lead-{}", person.number)});
    let credit = json!({"bookingRef": format!("ref-{}", person.number), "appliedRupees": 400});
    let discovery = json!({"discovery": {"pax": 2}, "essence": "calm"});
    let balance = json!({"availablePaise": 5, "asOf": "2026-05-01T10:00:00Z"});
    let enquiry = json!({"externalLeadId": format!("lead-{}", person.number), "destination": "Goa"});
    world.accept(person.event("contact.identified").name("Ana")).await;
    let opened = world.accept(person.event("enquiry.submitted").payload(enquiry)).await;
    let events = [
        person.event("contact.updated").name("Ana B"),
        event("contact.identified").phone(&format!("+1 555 {}", person.number)),
        person.event("trip.planning_started"),
        person.event("trip.draft_updated"),
        person.event("quote.requested"),
        person.event("traveller.discovery_upserted").payload(discovery),
        person.event("booking.started"),
        person.event("booking.abandoned"),
        person.event("employee.credit_updated").payload(balance),
        person.event("booking.completed").payload(booking),
        person.event("booking.credit_applied").payload(credit),
    ];
    for event in events {
        world.accept(event).await;
    }
    opened
}

/// Events that look for leads of the person of that number, `nth` time.
pub(super) async fn lead_events(world: &World, number: usize, nth: usize) {
    let person = Person { email: format!("round{number}@company{number}.example"), number };
    let booking = json!({"bookingRef": format!("again-{nth}"), "amount": 1000, "currency": "INR"});
    let events = [
        person.event("traveller.discovery_upserted").payload(json!({"discovery": {"pax": 3}})),
        person.event("booking.started"),
        person.event("booking.abandoned"),
        person.event("booking.completed").payload(booking),
        person.event("booking.completed").payload(json!({"externalLeadId": "shared"})),
    ];
    for event in events {
        let result = world.accept(event).await;
        assert!(result["leadId"].is_string(), "{result}");
    }
}

async fn writes(world: &World, person: &Person, opened: &Value) {
    let key = &world.key;
    let post = |route: &str, body: Value| {
        let request = key.records("POST", &format!("{RECORDS}{route}"), body.to_string());
        request.with("idempotency-key", Uuid::now_v7().to_string())
    };
    let (client, contact) = (text(&opened["clientId"]), json!({"email": person.email}));
    let lead = answered(world, 201, post("/leads", json!({"contact": contact}))).await;
    let lead = text(&lead["data"]["id"]);
    let requests = [
        (201, post("/clients", json!({"email": format!("written{}@example.com", person.number)}))),
        (200, patch_of(key, &format!("/clients/{client}"), &json!({"company": "Initech"}))),
        (200, patch_of(key, &format!("/leads/{lead}"), &json!({"stage": "follow_up"}))),
        (200, patch_of(key, &format!("/leads/{lead}/trip"), &json!({"destination": "Rome"}))),
    ];
    for (status, request) in requests {
        answered(world, status, request).await;
    }
}

async fn answered(world: &World, status: u16, request: Outgoing) -> Value {
    let answer = world.http().send(&request).await;
    assert_eq!(answer.status, status, "{answer:?}");
    answer.json()
}

async fn actions(world: &World, opened: &Value) {
    let act = async |mut action: Value| {
        action["tenant"] = "acme".into();
        let id = Uuid::now_v7().to_string();
        let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&id);
        let answer = world.queues.ask("crm", &message).await;
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(answer["ok"], true, "{answer}");
        answer
    };
    let lead = act(json!({"action": "open-lead", "client": opened["clientId"]})).await["leadId"].clone();
    let offer = json!({"action": "proposal-send", "lead": lead, "title": "Goa", "url": "https://example.com",
                       "channel": "email"});
    let booking_ref = Uuid::now_v7();
    let booking = json!({"action": "booking-confirm", "lead": lead, "bookingRef": booking_ref});
    let actions = [
        json!({"action": "assign", "lead": lead, "owner": "ben@acme.test"}),
        json!({"action": "stage", "lead": lead, "stage": "building_proposal"}),
        offer,
        json!({"action": "proposal-view", "lead": lead}),
        booking,
        json!({"action": "booking-cancel", "bookingRef": booking_ref, "reason": "changed plans"}),
    ];
    for action in actions {
        act(action).await;
    }
}

async fn reads(world: &World, person: &Person, opened: &Value) {
    let (client, lead) = (text(&opened["clientId"]), text(&opened["leadId"]));
    let (email, number) = (&person.email, person.number);
    let routes = [
        format!("/clients/{client}"),
        format!("/clients?email={email}"),
        format!("/clients?externalId=round-{number}"),
        format!("/clients?phone=1555{number}"),
        format!("/leads/{lead}"),
        format!("/leads?externalId=lead-{number}"),
        format!("/leads/{lead}/trip"),
    ];
    for route in routes {
        answered(world, 200, world.key.records("GET", &format!("{RECORDS}{route}"), "")).await;
    }
}

/// What an operator looks up of that person.
pub(super) async fn commands(world: &World, number: usize) {
    let query = "SELECT client_id, lead_id FROM leads WHERE external_id = $1";
    let found = world.database.rows(query, &[&format!("lead-{number}")]).await.remove(0);
    let (client, lead) = (text(&found["client_id"]), text(&found["lead_id"]));
    let looks: [&[&str]; 5] = [
        &["timeline", "--tenant", "acme", "--client", client],
        &["inbox", "--tenant", "acme", "--lead", lead],
        &["discovery", "--tenant", "acme", "--client", client],
        &["invoice", "--tenant", "acme", "--lead", lead],
        &["usage", "--tenant", "acme"],
    ];
    for look in looks {
        world.connectctl.json(look).await;
    }
}
