//! One of each operation of partners, integrators and advisors, for one person after the other.

use crate::records::patch_request;
use serde_json::{Value, json};
use tests::event::batch;
use tests::{Event, HttpRequest, MAX_WAIT, QueuedMessage, RECORDS, Receiver, World, event, eventually, text};
use uuid::Uuid;

/// A subscription and its receiver.
pub(super) struct Subscriber {
    pub(super) id: String,
    pub(super) receiver: Receiver,
}

/// Runs every operation once, for the person with that number.
pub(super) async fn run_round(world: &World, subscriber: &Subscriber, number: usize) {
    let person = Person { email: format!("round{number}@company{number}.example"), number };
    let opened = events(world, &person).await;
    conflict(world, &person).await;
    writes(world, &person, &opened).await;
    actions(world, &opened).await;
    parked_delivery(world, subscriber, &opened).await;
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
    let days = json!([{"title": "1", "items": [{"title": "Beach"}]}]);
    let enquiry = json!({"externalLeadId": format!("lead-{}", person.number), "destination": "Goa",
                         "message": "soon", "itinerarySnapshot": {"title": "Goa", "days": days}});
    let (name, domain) = (format!("Company {}", person.number), format!("company{}.example", person.number));
    let company = ["company", "create", "--tenant", "acme", "--name", &name, "--domain", &domain];
    world.connectctl.json(&company).await;
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
    named_events(world, person, &opened).await;
    opened
}

/// Events that name records by their ids, and a repeated one.
async fn named_events(world: &World, person: &Person, opened: &Value) {
    let found = person.event("traveller.discovery_upserted").payload(json!({"discovery": {"pax": 4}}));
    let found = world.accept(found).await["travellerDiscovery"]["discoveryId"].clone();
    let discovery = json!({"hosTripDiscoveryId": found, "discovery": {"pax": 5}});
    let (lead, trip) = (&opened["leadId"], &opened["tripId"]);
    let repeated = person.event("booking.abandoned").payload(json!({"leadId": lead}));
    let events = [
        person.event("traveller.discovery_upserted").payload(discovery),
        person.event("booking.started").payload(json!({"tripId": trip})),
        person.event("booking.credit_applied").payload(json!({"tripId": trip, "appliedRupees": 450})),
        event("contact.updated").email(&format!("colleague@company{}.example", person.number)).name("Bo"),
        event("contact.updated").email(&format!("colleague@company{}.example", person.number)).name("Bob"),
        repeated.clone(),
    ];
    for event in events {
        world.accept(event).await;
    }
    assert_eq!(world.result(repeated).await["status"], "duplicate");
}

/// An event that finds its client locked, so that its unit runs again with everything locked.
async fn conflict(world: &World, person: &Person) {
    let update = world.key.events(batch(&[person.event("contact.updated").name("Ana C")]));
    let other = world.database.connect().await;
    let lock = format!(
        "BEGIN; SELECT FROM clients WHERE email_key = '{}' AND tenant_id::text =
            (SELECT tenant_id::text FROM tenants WHERE slug = 'acme') FOR UPDATE",
        person.email
    );
    other.batch_execute(&lock).await.expect("the row is free");
    let commit = async {
        world.database.until_lock_wait_of("worker").await;
        other.batch_execute("COMMIT").await.expect("a commit");
    };
    let (response, ()) = futures_util::join!(world.http().send(&update), commit);
    assert_eq!(response.json()["accepted"], 1, "{response:?}");
}

/// A delivery that waits in the database while its subscription is paused.
async fn parked_delivery(world: &World, subscriber: &Subscriber, opened: &Value) {
    let told = async |what: &str| {
        eventually(what, MAX_WAIT, async || match subscriber.receiver.count() {
            0 => Err("nothing was received".to_owned()),
            _ => Ok(()),
        })
        .await;
    };
    told("what happened before is delivered").await;
    let parked = "SELECT count(*) FROM deliveries WHERE parked_at IS NOT NULL";
    world.connectctl.json(&["subscription", "pause", &subscriber.id]).await;
    act(world, json!({"action": "stage", "lead": opened["leadId"], "stage": "follow_up"})).await;
    eventually("the delivery is parked", MAX_WAIT, async || {
        if world.database.count(parked).await > 0 { Ok(()) } else { Err("none is".to_owned()) }
    })
    .await;
    subscriber.receiver.clear_received();
    world.connectctl.json(&["subscription", "resume", &subscriber.id]).await;
    told("the parked delivery is made").await;
    let received = subscriber.receiver.received().remove(0);
    let query = "SELECT state FROM deliveries WHERE delivery_id = $2::text::uuid AND tenant_id =
        (SELECT tenant_id FROM tenants WHERE slug = $1)";
    eventually("its outcome is recorded", MAX_WAIT, async || {
        let rows = world.database.rows(query, &[&"acme", &received.header("x-connect-delivery")]).await;
        match rows.first() {
            Some(row) if row["state"] == "delivered" => Ok(()),
            row => Err(format!("{row:?}")),
        }
    })
    .await;
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
    let lead = send_expecting(world, 201, post("/leads", json!({"contact": contact}))).await;
    let lead = text(&lead["data"]["id"]);
    let written =
        json!({"email": format!("written{}@example.com", person.number), "travelers": [{"name": "Al"}]});
    let created = post("/clients", written);
    let (moved, kept) = (format!("moved-{}", person.number), format!("round-{}", person.number));
    let requests = [
        (201, created.clone()),
        // A retry with the same bytes.
        (201, created),
        (200, patch_request(key, &format!("/clients/{client}"), &json!({"company": "Initech"}))),
        (200, patch_request(key, &format!("/clients/{client}"), &json!({"travelers": [{"name": "Bo"}]}))),
        (200, patch_request(key, &format!("/clients/{client}"), &json!({"travelers": []}))),
        (200, patch_request(key, &format!("/clients/{client}"), &json!({"externalId": moved}))),
        (200, patch_request(key, &format!("/clients/{client}"), &json!({"externalId": kept}))),
        (200, patch_request(key, &format!("/leads/{lead}"), &json!({"stage": "follow_up"}))),
        (200, patch_request(key, &format!("/leads/{lead}/trip"), &json!({"destination": "Rome"}))),
    ];
    for (status, request) in requests {
        send_expecting(world, status, request).await;
    }
    moved_email(world, person, client).await;
}

/// Writes that wait together behind one that finds its client locked, so that they are one unit; it moves an email.
async fn moved_email(world: &World, person: &Person, client: &str) {
    let patch = |body: Value| patch_request(&world.key, &format!("/clients/{client}"), &body);
    let other = world.database.connect().await;
    // By its key, so that only its row is read.
    let lock = format!(
        "SET enable_seqscan = off; SET enable_bitmapscan = off; BEGIN; SELECT FROM clients WHERE client_id = '{client}'
            AND tenant_id = (SELECT tenant_id FROM tenants WHERE slug = 'acme') FOR UPDATE"
    );
    other.batch_execute(&lock).await.expect("the row is free");
    let first = send_expecting(world, 200, patch(json!({"name": "Ana D"})));
    let moves = async {
        world.database.until_lock_wait_of("records").await;
        let home =
            send_expecting(world, 200, patch(json!({"email": format!("home{}@gmail.com", person.number)})));
        let work = send_expecting(world, 200, patch(json!({"email": person.email, "name": "Ana C"})));
        let commit = async {
            eventually("the others wait behind it", MAX_WAIT, async || {
                let samples = world.ingests[0].metrics().await;
                match samples.sum("connect_backlog_units", &[("queue", "records")]) {
                    units if units >= 3.0 => Ok(()),
                    units => Err(format!("{units} units")),
                }
            })
            .await;
            other.batch_execute("COMMIT").await.expect("a commit");
        };
        futures_util::join!(home, work, commit)
    };
    futures_util::join!(first, moves);
    // Whichever of the two came last.
    send_expecting(world, 200, patch(json!({"email": person.email}))).await;
}

async fn send_expecting(world: &World, status: u16, request: HttpRequest) -> Value {
    let response = world.http().send(&request).await;
    assert_eq!(response.status, status, "{response:?}");
    response.json()
}

/// Sends an advisor action, which must succeed, and returns the reply.
pub(super) async fn act(world: &World, mut action: Value) -> Value {
    action["tenant"] = "acme".into();
    let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
    let reply = world.queues.call("crm", &message).await;
    let reply: Value = serde_json::from_slice(&reply.body).expect("JSON");
    assert_eq!(reply["ok"], true, "{action}: {reply}");
    reply
}

async fn actions(world: &World, opened: &Value) {
    let client = &opened["clientId"];
    let open = async || act(world, json!({"action": "open-lead", "client": client})).await["leadId"].clone();
    let (lead, other) = (open().await, open().await);
    let offer = |lead: &Value| {
        json!({"action": "proposal-send", "lead": lead, "title": "Goa", "url": "https://example.com",
               "channel": "email"})
    };
    let booking_ref = Uuid::now_v7();
    let booking = json!({"action": "booking-confirm", "lead": lead, "bookingRef": booking_ref});
    let actions = [
        json!({"action": "open-lead", "email": format!("{booking_ref}@example.com"), "name": "Al"}),
        json!({"action": "open-lead", "client": client, "noTrip": true}),
        json!({"action": "assign", "lead": lead, "owner": "ben@acme.test"}),
        json!({"action": "stage", "lead": lead, "stage": "building_proposal"}),
        offer(&lead),
        json!({"action": "proposal-view", "lead": lead}),
        booking,
        json!({"action": "booking-cancel", "bookingRef": booking_ref, "reason": "changed plans"}),
        json!({"action": "travelled", "lead": lead}),
        offer(&other),
        json!({"action": "proposal-discard", "lead": other}),
        json!({"action": "archive", "lead": other}),
    ];
    for action in actions {
        act(world, action).await;
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
        send_expecting(world, 200, world.key.records("GET", &format!("{RECORDS}{route}"), "")).await;
    }
}
