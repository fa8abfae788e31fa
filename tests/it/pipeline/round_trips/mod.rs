//! Every unit of work is two round trips, with only the statements that it needs.

mod actions;
mod repeats;
mod special_cases;

use crate::records::patch_request;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicU32, Ordering};
use tests::{
    Event, HttpRequest, MAX_WAIT, QueuedMessage, RECORDS, RoundTrip, StatementRecorder, World, event,
};
use tests::{eventually, text};
use uuid::Uuid;

/// Maximum number of tries until a unit's round trips were not split by a pause.
const TRIES: usize = 3;

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
        let recorder = StatementRecorder::in_front_of(world.database.url());
        world.set("DATABASE_URL", recorder.url());
        world.add_worker().await;
        Self { world, recorder }
    }

    /// What the worker sent in `pool` for `work`, which is repeated until all statements were prepared before.
    async fn round_trips(&self, pool: &str, mut work: impl AsyncFnMut()) -> Vec<Vec<String>> {
        for _ in 0..10 {
            self.recorder.take(pool);
            work().await;
            let mut sent = Vec::new();
            eventually("the unit has ended", MAX_WAIT, async || {
                sent.extend(
                    self.recorder.take(pool).into_iter().filter(|round_trip| !round_trip.is_readiness()),
                );
                let last = sent.last().and_then(|round_trip: &RoundTrip| round_trip.statements.last());
                match last.map(String::as_str) {
                    Some("COMMIT" | "ROLLBACK") => Ok(()),
                    _ => Err(format!("{sent:?}")),
                }
            })
            .await;
            let is_prepared =
                |round_trip: &RoundTrip| !round_trip.statements.iter().any(|s| s.starts_with("PREPARE"));
            if sent.iter().all(is_prepared) {
                return sent.into_iter().map(|round_trip| round_trip.statements).collect();
            }
        }
        panic!("statements are prepared again and again");
    }

    /// The two round trips of a unit. On a busy machine a program may pause between two statements for so long that the
    /// recorder takes them for two round trips: `work` is then repeated.
    async fn two_round_trips(&self, pool: &str, mut work: impl AsyncFnMut()) -> [Vec<String>; 2] {
        let mut split = Vec::new();
        for _ in 0..TRIES {
            match <[Vec<String>; 2]>::try_from(self.round_trips(pool, &mut work).await) {
                Ok(round_trips) => return round_trips,
                Err(round_trips) => split = round_trips,
            }
        }
        panic!("not two round trips: {split:#?}")
    }

    /// The two round trips of an event, which `make` creates for each try.
    async fn event(&self, make: impl Fn() -> Event) -> [Vec<String>; 2] {
        self.two_round_trips("worker", async || drop(self.world.accept(make()).await)).await
    }

    /// The two round trips of an event of somebody who has just submitted a lead.
    async fn event_after_enquiry(&self, make: impl Fn(&str) -> Event) -> [Vec<String>; 2] {
        let work = async || {
            let known = email();
            self.world.accept(event("enquiry.submitted").email(&known)).await;
            self.recorder.take("worker");
            self.world.accept(make(&known)).await;
        };
        self.two_round_trips("worker", work).await
    }

    /// The two round trips of a records write.
    async fn write(&self, status: u16, mut make: impl AsyncFnMut() -> HttpRequest) -> [Vec<String>; 2] {
        let write = async || {
            let response = self.world.http().send(&make().await).await;
            assert_eq!(response.status, status, "{response:?}");
        };
        self.two_round_trips("records", write).await
    }

    /// The two round trips of an advisor action.
    async fn action(&self, mut make: impl AsyncFnMut() -> Value) -> [Vec<String>; 2] {
        let act = async || {
            let action = make().await;
            // The preparation may have been an action itself.
            self.recorder.take("records");
            self.act(&action).await;
        };
        self.two_round_trips("records", act).await
    }

    /// Sends an advisor action, which must succeed, and returns the reply.
    async fn act(&self, action: &Value) -> Value {
        let message = QueuedMessage::new(action.to_string().as_bytes()).with_id(&Uuid::now_v7().to_string());
        let reply = self.world.queues.call("crm", &message).await;
        let reply: Value = serde_json::from_slice(&reply.body).expect("JSON");
        assert_eq!(reply["ok"], true, "{action}: {reply}");
        reply
    }
}

/// The statements of a first round trip. The tenants come before all others, with the lock that excludes erasures.
fn loads(statements: &[&str]) -> Vec<String> {
    let others = statements.iter().filter(|statement| **statement != "tenants.load");
    ["BEGIN", "tenants.load"].iter().chain(others).map(|statement| (*statement).to_owned()).collect()
}

/// The statements of a second round trip.
fn writes(statements: &[&str]) -> Vec<String> {
    statements.iter().chain(&["COMMIT"]).map(|statement| (*statement).to_owned()).collect()
}

fn email() -> String {
    format!("{}@gmail.com", Uuid::now_v7())
}

const CONTACT: [&str; 3] = ["tenants.load", "ledger.load", "clients.load"];
const MEMBERS: [&str; 4] = ["tenants.load", "members.load", "ledger.load", "clients.load"];
const RELATED: [&str; 6] =
    ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load", "leads.load"];
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
async fn a_contact_loads_a_company_account_only_on_a_company_domain() {
    let recorded = Recorded::start().await;
    let new = recorded.event(|| event("contact.identified").email(&email()).external_id(&email())).await;
    assert_eq!(new, [loads(&CONTACT), writes(&["ledger.insert", "clients.insert", "timeline.insert"])]);

    let known = email();
    recorded.world.accept(event("contact.identified").email(&known)).await;
    for kind in ["contact.identified", "trip.planning_started", "trip.draft_updated", "quote.requested"] {
        let round_trips = recorded.event(|| event(kind).email(&known)).await;
        assert_eq!(round_trips, [loads(&CONTACT), writes(&["ledger.insert", "timeline.insert"])], "{kind}");
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
async fn a_new_lead_loads_no_leads_and_events_about_leads_load_them_once() {
    let recorded = Recorded::start().await;
    let enquiry = recorded.event(|| event("enquiry.submitted").email(&email())).await;
    // A member is notified; nobody subscribes to outbound events.
    assert_eq!(enquiry, [loads(&MEMBERS), writes(&NEW_LEAD)]);

    let known = email();
    recorded.world.accept(event("enquiry.submitted").email(&known)).await;
    let abandoned = recorded.event(|| event("booking.abandoned").email(&known)).await;
    assert_eq!(abandoned, [loads(&RELATED), writes(&["ledger.insert", "timeline.insert"])]);
    let started = || event("booking.started").email(&known);
    recorded.world.accept(started()).await;
    let round_trips = recorded.event(started).await;
    assert_eq!(
        round_trips,
        [loads(&RELATED), writes(&["ledger.insert", "timeline.insert"])],
        "it is at that stage already"
    );
    let completed = || event("booking.completed").email(&known);
    recorded.world.accept(completed()).await;
    let round_trips = recorded.event(completed).await;
    assert_eq!(round_trips, [loads(&RELATED), writes(&["ledger.insert", "timeline.insert"])]);
}

#[tokio::test]
async fn a_booking_that_advances_a_lead_writes_it_and_its_trip() {
    let recorded = Recorded::start().await;
    let started = |known: &str| event("booking.started").email(known);
    let [loaded, written] = recorded.event_after_enquiry(started).await;
    assert_eq!(loaded, loads(&RELATED));
    let expected = ["ledger.insert", "leads.update", "trips.update", "timeline.insert"];
    assert_eq!(written, writes(&expected));
}

#[tokio::test]
async fn discovery_and_credit_events_load_their_records_in_the_same_round_trip() {
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
    // With a lead a booking makes an invoice.
    let booked = |known: &str| {
        let booking =
            json!({"bookingRef": Uuid::now_v7(), "amount": 1000, "currency": "INR", "creditUsed": 500});
        event("booking.completed").email(known).payload(booking)
    };
    let [loaded, written] = recorded.event_after_enquiry(booked).await;
    let expected = ["clients.lock", "invoices.load", "tenants.load", "members.load", "ledger.load"];
    assert_eq!(loaded, loads(&[&expected[..], &["clients.load", "leads.load"]].concat()));
    let expected = ["leads.update", "trips.update", "invoices.insert", "timeline.insert"];
    assert_eq!(written, writes(&[&["ledger.insert"][..], &expected].concat()));

    let known = email();
    recorded.world.accept(event("enquiry.submitted").email(&known)).await;
    let booking_ref = Uuid::now_v7().to_string();
    let payload = json!({"bookingRef": booking_ref, "amount": 1000, "currency": "INR", "creditUsed": 500});
    recorded.world.accept(event("booking.completed").email(&known).payload(payload)).await;
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
async fn records_writes_check_key_quota_and_deadline_within_two_round_trips() {
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
    let of_client = json!({"clientId": opened["clientId"]});
    let lead = recorded.write(201, async || post("/leads", of_client.clone())).await;
    let named = ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load_named"];
    let expected = NEW_LEAD.into_iter().filter(|statement| *statement != "clients.insert");
    let expected: Vec<&str> = expected.chain(["idempotency.insert", "usage.count"]).collect();
    assert_eq!(lead, [loads(&[&own[..], &named].concat()), writes(&expected)]);

    // A retry is one round trip; nobody waits for its ROLLBACK.
    let (body, once) = (json!({"email": email()}).to_string(), Uuid::now_v7().to_string());
    let again = async || {
        let request = key.records("POST", &format!("{RECORDS}/clients"), body.clone());
        request.with("idempotency-key", &once)
    };
    recorded.write(201, again).await;
    let replayed = recorded.write(201, again).await;
    assert_eq!(replayed, [loads(&[&own[..], &CONTACT].concat()), vec!["ROLLBACK".to_owned()]]);

    let (client, lead) = (text(&opened["clientId"]).to_owned(), text(&opened["leadId"]).to_owned());
    let change = async || patch_request(key, &format!("/clients/{client}"), &json!({"name": Uuid::now_v7()}));
    let expected = ["clients.lock", "tenants.load", "ledger.load", "clients.load_named", "rosters.load"];
    let round_trips = recorded.write(200, change).await;
    assert_eq!(round_trips, [loads(&expected), writes(&["ledger.insert", "clients.update", "usage.count"])]);

    let of_lead =
        ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load_named", "leads.load"];
    let change = async || patch_request(key, &format!("/leads/{lead}"), &json!({"title": Uuid::now_v7()}));
    let round_trips = recorded.write(200, change).await;
    assert_eq!(round_trips, [loads(&of_lead), writes(&["ledger.insert", "leads.update", "usage.count"])]);

    let change = async || {
        let body = json!({"destination": Uuid::now_v7(), "changeSummary": "elsewhere"});
        patch_request(key, &format!("/leads/{lead}/trip"), &body)
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
