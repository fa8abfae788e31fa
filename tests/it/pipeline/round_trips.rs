//! Every unit of work is two round trips, with only the statements that it needs.

use crate::records::patch_of;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use tests::{Event, Flight, Outgoing, PATIENCE, QueuedMessage, RECORDS, StatementRecorder, World, event};
use tests::{eventually, text};
use uuid::Uuid;

/// A worker with one lane for each queue behind a recorder.
struct Recorded {
    world: World,
    recorder: StatementRecorder,
}

impl Recorded {
    async fn start() -> Self {
        let mut world = World::with()
            .workers(0)
            .set("CONNECT_WORKER_LANES", "1")
            .set("CONNECT_RECORD_LANES", "1")
            .set("CONNECT_CRM_LANES", "1")
            .start()
            .await;
        let recorder = StatementRecorder::before(world.database.url());
        world.set("DATABASE_URL", recorder.url());
        world.add_worker().await;
        Self { world, recorder }
    }

    /// What the worker sent in `pool` for `work`, which is repeated until all statements were prepared before.
    async fn flights(&self, pool: &str, mut work: impl AsyncFnMut()) -> Vec<Vec<String>> {
        for _ in 0..10 {
            self.recorder.take(pool);
            work().await;
            let mut sent = Vec::new();
            eventually("the unit has ended", PATIENCE, async || {
                sent.extend(self.recorder.take(pool).into_iter().filter(|flight| !is_readiness(flight)));
                let last = sent.last().and_then(|flight: &Flight| flight.statements.last());
                match last.map(String::as_str) {
                    Some("COMMIT" | "ROLLBACK") => Ok(()),
                    _ => Err(format!("{sent:?}")),
                }
            })
            .await;
            let is_prepared = |flight: &Flight| !flight.statements.iter().any(|s| s.starts_with("PREPARE"));
            if sent.iter().all(is_prepared) {
                return sent.into_iter().map(|flight| flight.statements).collect();
            }
        }
        panic!("statements are prepared again and again");
    }

    /// The two flights of an event, made anew by `make` for each try.
    async fn event(&self, make: impl Fn() -> Event) -> [Vec<String>; 2] {
        let flights = self.flights("worker", async || drop(self.world.accept(make()).await)).await;
        two(flights)
    }

    /// The two flights of a records write.
    async fn write(&self, status: u16, mut make: impl AsyncFnMut() -> Outgoing) -> [Vec<String>; 2] {
        let write = async || {
            let answer = self.world.http().send(&make().await).await;
            assert_eq!(answer.status, status, "{answer:?}");
        };
        two(self.flights("records", write).await)
    }

    /// The two flights of an advisor action.
    async fn action(&self, make: impl Fn() -> Value) -> [Vec<String>; 2] {
        let act = async || {
            let message =
                QueuedMessage::new(make().to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
            let answer = self.world.queues.ask("crm", &message).await;
            assert!(String::from_utf8_lossy(&answer.body).contains(r#""ok":true"#), "{answer:?}");
        };
        two(self.flights("records", act).await)
    }
}

fn is_readiness(flight: &Flight) -> bool {
    flight.statements == ["SELECT 1"]
}

fn two(flights: Vec<Vec<String>>) -> [Vec<String>; 2] {
    flights.try_into().unwrap_or_else(|flights| panic!("not two round trips: {flights:#?}"))
}

/// The statements of a first flight, between BEGIN and what every unit loads.
fn loads(statements: &[&str]) -> Vec<String> {
    ["BEGIN"].iter().chain(statements).map(|statement| (*statement).to_owned()).collect()
}

/// The statements of a second flight.
fn writes(statements: &[&str]) -> Vec<String> {
    statements.iter().chain(&["COMMIT"]).map(|statement| (*statement).to_owned()).collect()
}

fn email() -> String {
    format!("{}@gmail.com", Uuid::now_v7())
}

const CONTACT: [&str; 3] = ["tenants.load", "ledger.load", "clients.load"];
const MEMBERS: [&str; 4] = ["tenants.load", "members.load", "ledger.load", "clients.load"];
const NEW_LEAD: [&str; 7] = [
    "ledger.insert",
    "clients.insert",
    "leads.insert",
    "trips.insert",
    "proposals.insert",
    "timeline.insert",
    "notifications.insert",
];

#[tokio::test]
async fn a_contact_touches_no_company_and_one_on_a_company_domain_only_its_account() {
    let recorded = Recorded::start().await;
    let new = recorded.event(|| event("contact.identified").email(&email()).external_id(&email())).await;
    assert_eq!(new, [loads(&CONTACT), writes(&["ledger.insert", "clients.insert", "timeline.insert"])]);

    let known = email();
    recorded.world.accept(event("contact.identified").email(&known)).await;
    for kind in ["contact.identified", "trip.planning_started", "trip.draft_updated", "quote.requested"] {
        let flights = recorded.event(|| event(kind).email(&known)).await;
        assert_eq!(flights, [loads(&CONTACT), writes(&["ledger.insert", "timeline.insert"])], "{kind}");
    }
    let by_phone = recorded.event(|| event("contact.identified").phone("+91 98 1234")).await;
    let locked = [&["locks.take"], &CONTACT[..]].concat();
    assert_eq!(by_phone, [loads(&locked), writes(&["ledger.insert", "timeline.insert"])]);

    let updated =
        recorded.event(|| event("contact.updated").email(&known).name(&Uuid::now_v7().to_string())).await;
    assert_eq!(updated, [loads(&CONTACT), writes(&["ledger.insert", "clients.update", "timeline.insert"])]);

    let company = recorded.world.connectctl.json(&[
        "company",
        "create",
        "--tenant",
        "acme",
        "--name",
        "Initech",
        "--domain",
        "initech.com",
    ]);
    company.await;
    let colleague = recorded
        .event(|| event("contact.identified").email(&format!("{}@initech.com", Uuid::now_v7())))
        .await;
    let expected = ["ledger.insert", "clients.insert", "company.insert", "timeline.insert"];
    assert_eq!(colleague, [loads(&[&CONTACT[..], &["company.load"]].concat()), writes(&expected)]);
}

#[tokio::test]
async fn an_enquiry_loads_no_leads_and_events_about_leads_load_them_once() {
    let recorded = Recorded::start().await;
    let enquiry = recorded.event(|| event("enquiry.submitted").email(&email())).await;
    // A member is notified; nobody subscribes to outbound events.
    assert_eq!(enquiry, [loads(&MEMBERS), writes(&NEW_LEAD)]);

    let related: [&str; 6] =
        ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load", "leads.load"];
    let known = email();
    recorded.world.accept(event("enquiry.submitted").email(&known)).await;
    let abandoned = recorded.event(|| event("booking.abandoned").email(&known)).await;
    assert_eq!(abandoned, [loads(&related), writes(&["ledger.insert", "timeline.insert"])]);
    let completed = || event("booking.completed").email(&known);
    let flights = recorded.event(completed).await;
    assert_eq!(flights, [loads(&related), writes(&["ledger.insert", "timeline.insert"])]);
}

#[tokio::test]
async fn discovery_and_credit_load_what_they_change_in_the_same_flight() {
    let recorded = Recorded::start().await;
    let known = email();
    let discovery = || {
        let payload =
            json!({"discovery": {"pax": 2, "tripNotes": Uuid::now_v7()}, "essence": Uuid::now_v7()});
        event("traveller.discovery_upserted").email(&known).payload(payload)
    };
    let [loaded, written] = recorded.event(discovery).await;
    let expected = [
        "clients.lock",
        "tenants.load",
        "members.load",
        "ledger.load",
        "clients.load",
        "leads.load",
        "profiles.load",
    ];
    assert_eq!(loaded, loads(&expected));
    assert_eq!(
        written,
        writes(&["ledger.insert", "discoveries.upsert", "profiles.upsert", "timeline.insert"])
    );

    let seconds = AtomicU32::new(10);
    let credit = || {
        let as_of = format!("2026-01-01T00:00:{}Z", seconds.fetch_add(1, Ordering::Relaxed));
        let payload = json!({"membershipId": "m-1", "availablePaise": 100, "asOf": as_of});
        event("employee.credit_updated").email(&known).payload(payload)
    };
    let [loaded, written] = recorded.event(credit).await;
    let expected = ["clients.lock", "tenants.load", "ledger.load", "clients.load", "credits.load"];
    assert_eq!(loaded, loads(&expected));
    assert_eq!(written, writes(&["ledger.insert", "credits.upsert", "timeline.insert"]));
}

#[tokio::test]
async fn a_booking_and_its_credit_load_and_write_the_invoice() {
    let recorded = Recorded::start().await;
    let booked = || {
        let booking =
            json!({"bookingRef": Uuid::now_v7(), "amount": 1000, "currency": "INR", "creditUsed": 500});
        event("booking.completed").email(&email()).payload(booking)
    };
    // Without a lead a booking is timeline only; with one it makes an invoice.
    let known = email();
    recorded.world.accept(event("enquiry.submitted").email(&known)).await;
    let booking_ref = Uuid::now_v7().to_string();
    let payload = json!({"bookingRef": booking_ref, "amount": 1000, "currency": "INR", "creditUsed": 500});
    recorded.world.accept(event("booking.completed").email(&known).payload(payload)).await;
    let [loaded, _] = recorded.event(booked).await;
    assert!(loaded.contains(&"invoices.load".to_owned()), "{loaded:?}");

    let credit = || {
        let applied = json!({"bookingRef": booking_ref, "appliedRupees": 400});
        event("booking.credit_applied").email(&known).payload(applied)
    };
    let [loaded, written] = recorded.event(credit).await;
    let expected = ["invoices.load", "tenants.load", "members.load", "ledger.load", "leads.load"];
    assert_eq!(loaded, loads(&expected));
    assert_eq!(written, writes(&["ledger.insert", "invoices.update", "timeline.insert"]));
}

#[tokio::test]
async fn records_writes_check_key_quota_and_deadline_in_the_same_two_round_trips() {
    let recorded = Recorded::start().await;
    let key = &recorded.world.key;
    let post = |route: &str, body: Value| {
        let request = key.records("POST", &format!("{RECORDS}{route}"), body.to_string());
        request.with("idempotency-key", Uuid::now_v7().to_string())
    };
    let own = ["idempotency.lock", "idempotency.find"];
    let client = recorded.write(201, async || post("/clients", json!({"email": email()}))).await;
    let expected = ["ledger.insert", "clients.insert", "idempotency.insert", "usage.count"];
    assert_eq!(client, [loads(&[&own[..], &CONTACT].concat()), writes(&expected)]);

    let lead = recorded.write(201, async || post("/leads", json!({"contact": {"email": email()}}))).await;
    let expected = [&NEW_LEAD[..], &["idempotency.insert", "usage.count"]].concat();
    assert_eq!(lead, [loads(&[&own[..], &MEMBERS].concat()), writes(&expected)]);

    let opened = recorded.world.accept(event("enquiry.submitted").email(&email())).await;
    let (client, lead) = (text(&opened["clientId"]).to_owned(), text(&opened["leadId"]).to_owned());
    let change = async || patch_of(key, &format!("/clients/{client}"), &json!({"name": Uuid::now_v7()}));
    let expected = ["clients.lock", "tenants.load", "ledger.load", "clients.load_named", "rosters.load"];
    let flights = recorded.write(200, change).await;
    assert_eq!(flights, [loads(&expected), writes(&["ledger.insert", "clients.update", "usage.count"])]);

    let of_lead =
        ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load_named", "leads.load"];
    let change = async || patch_of(key, &format!("/leads/{lead}"), &json!({"title": Uuid::now_v7()}));
    let flights = recorded.write(200, change).await;
    assert_eq!(flights, [loads(&of_lead), writes(&["ledger.insert", "leads.update", "usage.count"])]);

    let change = async || {
        let body = json!({"destination": Uuid::now_v7(), "changeSummary": "elsewhere"});
        patch_of(key, &format!("/leads/{lead}/trip"), &body)
    };
    let expected = [
        "ledger.insert",
        "leads.update",
        "trips.update",
        "inbox.insert",
        "notifications.insert",
        "usage.count",
    ];
    assert_eq!(recorded.write(200, change).await, [loads(&of_lead), writes(&expected)]);
}

#[tokio::test]
async fn advisor_actions_are_two_round_trips() {
    let recorded = Recorded::start().await;
    let opened = recorded.world.accept(event("enquiry.submitted").email(&email())).await;
    let lead = text(&opened["leadId"]).to_owned();
    let action = |name: &str, fields: Value| {
        let mut action = json!({"action": name, "tenant": "acme", "lead": lead});
        action.as_object_mut().expect("an object").extend(fields.as_object().cloned().unwrap_or_default());
        action
    };
    let of_lead =
        ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load_named", "leads.load"];
    let send = || {
        let offer = json!({"title": "Goa", "url": "https://example.com/p", "channel": "email"});
        action("proposal-send", offer)
    };
    let expected = ["ledger.insert", "leads.update", "trips.update", "proposals.update"];
    assert_eq!(recorded.action(send).await, [loads(&of_lead), writes(&expected)]);
    let open = || json!({"action": "open-lead", "tenant": "acme", "email": email(), "name": "Ana"});
    let expected: Vec<&str> = NEW_LEAD.into_iter().filter(|name| *name != "timeline.insert").collect();
    assert_eq!(recorded.action(open).await, [loads(&MEMBERS), writes(&expected)]);
    let confirm = || {
        let booking = json!({"bookingRef": Uuid::now_v7(), "amount": 1000, "currency": "INR"});
        action("booking-confirm", booking)
    };
    let [loaded, written] = recorded.action(confirm).await;
    assert!(loaded.contains(&"invoices.load".to_owned()), "{loaded:?}");
    assert!(written.contains(&"invoices.insert".to_owned()), "{written:?}");
}
