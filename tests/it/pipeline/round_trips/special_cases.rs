//! Units of several events, enquiry numbers, and what only some payloads and bodies need.

use super::{CONTACT, MEMBERS, NEW_LEAD, RELATED, Recorded, email, loads, writes};
use crate::records::patch_request;
use serde_json::{Value, json};
use tests::{Event, RECORDS, event, text};
use uuid::Uuid;

/// A new lead of a client who exists, made by an advisor.
const OPENED: [&str; 5] =
    ["ledger.insert", "leads.insert", "trips.insert", "proposals.insert", "notifications.insert"];

fn itinerary() -> Value {
    json!({"title": "Goa", "days": [{"title": "1", "items": [{"title": "Beach"}]}]})
}

#[tokio::test]
async fn a_batch_of_several_types_is_one_unit_with_each_statement_once() {
    let recorded = Recorded::start().await;
    let known = email();
    recorded.world.accept(event("enquiry.submitted").email(&known)).await;
    let batch = async || {
        let balance = json!({"availablePaise": 5, "asOf": "2026-05-01T10:00:00Z"});
        let discovery = json!({"discovery": {"tripNotes": Uuid::now_v7()}});
        let events: [Event; 7] = [
            event("contact.identified").email(&email()),
            event("contact.updated").email(&known).name(&Uuid::now_v7().to_string()),
            event("enquiry.submitted").email(&email()),
            event("quote.requested").email(&known),
            event("booking.abandoned").email(&known),
            event("traveller.discovery_upserted").email(&known).payload(discovery),
            event("employee.credit_updated").email(&email()).payload(balance),
        ];
        let results = recorded.world.results(&events).await;
        assert!(results.iter().all(|result| result["status"] == "accepted"), "{results:?}");
    };
    let [loaded, written] = recorded.two_round_trips("worker", batch).await;
    assert_eq!(loaded, loads(&[&RELATED[..], &["profiles.load", "credits.load"]].concat()));
    let expected = [
        "ledger.insert",
        "clients.update",
        "clients.insert",
        "leads.insert",
        "trips.insert",
        "proposals.insert",
        "discoveries.upsert",
        "credits.upsert",
        "timeline.insert",
        "notifications.insert",
    ];
    assert_eq!(written, writes(&expected));
}

#[tokio::test]
async fn only_a_new_lead_reserves_an_enquiry_number_in_one_extra_round_trip() {
    let recorded = Recorded::start().await;
    let enquiry = async || drop(recorded.world.accept(event("enquiry.submitted").email(&email())).await);
    let reserved = || {
        let round_trips = recorded.recorder.take("counters").into_iter();
        round_trips
            .filter(|round_trip| !round_trip.is_readiness())
            .map(|round_trip| round_trip.statements)
            .collect::<Vec<_>>()
    };
    // The first one prepares the statement.
    enquiry().await;
    reserved();
    enquiry().await;
    assert_eq!(reserved(), [["counters.reserve"]]);

    let known = email();
    for kind in ["contact.identified", "contact.updated", "quote.requested", "employee.credit_updated"] {
        recorded.world.accept(event(kind).email(&known).name("Ana")).await;
        assert_eq!(reserved(), Vec::<Vec<String>>::new(), "{kind}");
    }
    let body = json!({"email": email()}).to_string();
    let post = recorded.world.key.records("POST", &format!("{RECORDS}/clients"), body);
    let post = post.with("idempotency-key", Uuid::now_v7().to_string());
    assert_eq!(recorded.world.http().send(&post).await.status, 201);
    assert_eq!(reserved(), Vec::<Vec<String>>::new(), "a client");
}

#[tokio::test]
async fn itineraries_rosters_and_moved_identities_add_only_their_own_statements() {
    let recorded = Recorded::start().await;
    let key = &recorded.world.key;
    let enquiry =
        || event("enquiry.submitted").email(&email()).payload(json!({"itinerarySnapshot": itinerary()}));
    let mut expected = NEW_LEAD.to_vec();
    expected.insert(5, "itineraries.insert");
    assert_eq!(recorded.event(enquiry).await, [loads(&MEMBERS), writes(&expected)]);

    let opened = recorded.world.accept(event("contact.identified").email(&email())).await;
    let client = text(&opened["clientId"]).to_owned();
    let route = format!("/clients/{client}");
    let loaded = ["clients.lock", "tenants.load", "ledger.load", "clients.load_named", "rosters.load"];
    let roster = async || {
        patch_request(
            key,
            &route,
            &json!({"travelers": [{"name": Uuid::now_v7()}, {"name": Uuid::now_v7()}]}),
        )
    };
    let expected = ["ledger.insert", "clients.update", "rosters.delete", "rosters.insert", "usage.count"];
    assert_eq!(recorded.write(200, roster).await, [loads(&loaded), writes(&expected)]);

    // The client that holds a moved identity must be found: its holders are loaded, too.
    let mut loaded = loaded.to_vec();
    loaded.insert(3, "clients.load");
    let moved = async || patch_request(key, &route, &json!({"externalId": Uuid::now_v7()}));
    recorded.world.http().send(&moved().await).await;
    let expected = ["ledger.insert", "clients.free", "clients.update", "usage.count"];
    assert_eq!(recorded.write(200, moved).await, [loads(&loaded), writes(&expected)]);
}

#[tokio::test]
async fn bookings_that_name_their_lead_load_nothing_more() {
    let recorded = Recorded::start().await;
    let known = email();
    let opened = recorded.world.accept(event("enquiry.submitted").email(&known)).await;
    for (name, id) in [("leadId", &opened["leadId"]), ("tripId", &opened["tripId"])] {
        let mut payload = json!({});
        payload[name] = id.clone();
        let abandoned = || event("booking.abandoned").email(&known).payload(payload.clone());
        let expected = [loads(&RELATED), writes(&["ledger.insert", "timeline.insert"])];
        assert_eq!(recorded.event(abandoned).await, expected, "{name}");
    }
    let named = |payload: Value| event("traveller.discovery_upserted").email(&known).payload(payload);
    let result = recorded.world.accept(named(json!({"discovery": {"pax": 2}}))).await;
    let id = &result["travellerDiscovery"]["discoveryId"];
    let discovery = || named(json!({"hosTripDiscoveryId": id, "discovery": {"tripNotes": Uuid::now_v7()}}));
    let [loaded, _] = recorded.event(discovery).await;
    assert_eq!(loaded, loads(&[&RELATED[..], &["discoveries.load_named", "profiles.load"]].concat()));
}

#[tokio::test]
async fn an_advisor_opening_a_lead_loads_only_its_client() {
    let recorded = Recorded::start().await;
    let opened = recorded.world.accept(event("contact.identified").email(&email())).await;
    let open = |fields: Value| {
        let mut action = json!({"tenant": "acme", "action": "open-lead"});
        let all = fields.as_object().expect("fields").iter();
        all.for_each(|(name, value)| action[name.as_str()] = value.clone());
        action
    };
    let loaded = ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load_named"];
    let of_client = async || open(json!({"client": opened["clientId"]}));
    assert_eq!(recorded.action(of_client).await, [loads(&loaded), writes(&OPENED)]);
    let without_trip = async || open(json!({"client": opened["clientId"], "noTrip": true}));
    let expected = ["ledger.insert", "leads.insert", "notifications.insert"];
    assert_eq!(recorded.action(without_trip).await, [loads(&loaded), writes(&expected)]);
    let of_nobody = async || open(json!({"email": email(), "name": "Ana", "noTrip": true}));
    let expected = ["ledger.insert", "clients.insert", "leads.insert", "notifications.insert"];
    assert_eq!(recorded.action(of_nobody).await, [loads(&MEMBERS), writes(&expected)]);
    // An event of somebody who is known by then still loads the contact alone.
    let known = email();
    let contact = recorded.event(|| event("contact.identified").email(&known)).await;
    assert_eq!(contact[0], loads(&CONTACT));
}
