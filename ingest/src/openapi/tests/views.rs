//! Records in responses match their schemas. A new field does not compile until it is named here.

use super::named;
use crate::openapi;
use chrono::{DateTime, Utc};
use common::event::{BatchResult, EventResult, EventStatus, TravellerDiscovery};
use common::model::{Brief, Budget, ClientId, DiscoveryId, LeadId, Party, Stage, TravelDates, TripId};
use common::view::{BriefView, ClientView, LeadView, OwnerView, ProposalView, TravelerView, TripView};
use serde::Serialize;
use serde_json::{Value, to_value};
use uuid::Uuid;

/// Checks that a record shows the fields of the schema: those that are required when it is bare, all when it is
/// full.
#[track_caller]
fn assert_shows(name: &str, bare: &impl Serialize, full: &impl Serialize) {
    let document = openapi::document();
    let schema = named(&document, name);
    let fields = |record: &Value| -> Vec<String> { record.as_object().unwrap().keys().cloned().collect() };
    let sorted = |mut names: Vec<&str>| {
        names.sort_unstable();
        names.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(fields(&to_value(bare).unwrap()), sorted(schema.required.clone()), "{name}, required");
    let all = schema.properties.iter().map(|(field, _)| *field).collect();
    assert_eq!(fields(&to_value(full).unwrap()), sorted(all), "{name}");
}

fn time() -> DateTime<Utc> {
    "2026-05-01T10:00:00Z".parse().unwrap()
}

fn brief() -> BriefView {
    let brief = Brief {
        destination: Some("Goa".to_owned()),
        travel_dates: Some(TravelDates::default()),
        party: Some(Party::default()),
        budget: Some(Budget::default()),
        guest_nationality: None,
    };
    brief.into()
}

fn owner() -> OwnerView {
    OwnerView { email: "asha@demo.example".to_owned(), name: "Asha".to_owned() }
}

#[test]
fn a_client_shows_what_its_schema_says() {
    let traveler =
        TravelerView { name: "Bo".to_owned(), kind: "child".to_owned(), age: None, email: None, phone: None };
    let client = ClientView {
        id: ClientId(Uuid::nil()),
        name: "Ana".to_owned(),
        email: None,
        phone: None,
        company: None,
        external_id: None,
        marketing_opt_in: false,
        client_type: "individual".to_owned(),
        travelers: vec![traveler.clone()],
        created_at: time(),
        updated_at: time(),
    };
    assert_shows("Client", &client, &client);
    assert_shows("ClientTraveler", &traveler, &traveler);
}

#[test]
fn an_enquiry_shows_what_its_schema_says() {
    let full = LeadView {
        id: LeadId(Uuid::nil()),
        enquiry_number: "ENQ-2026-000001".to_owned(),
        title: "Goa".to_owned(),
        stage: Stage::Inquiry,
        follow_up: false,
        client_id: ClientId(Uuid::nil()),
        trip_id: Some(TripId(Uuid::nil())),
        external_id: None,
        owner: Some(owner()),
        brief: brief(),
        created_at: time(),
        updated_at: time(),
    };
    let bare = LeadView { trip_id: None, owner: None, brief: BriefView::default(), ..full.clone() };
    assert_shows("Lead", &bare, &full);
    assert_shows("Owner", &owner(), &owner());
}

#[test]
fn a_trip_shows_what_its_schema_says() {
    let proposal = ProposalView { status: "draft".to_owned(), sent_at: None };
    let full = TripView {
        id: TripId(Uuid::nil()),
        lead_id: LeadId(Uuid::nil()),
        enquiry_number: "ENQ-2026-000001".to_owned(),
        title: "Goa".to_owned(),
        stage: Stage::Inquiry,
        brief: brief(),
        guest_nationality: None,
        owner: None,
        proposal: proposal.clone(),
        created_at: time(),
        updated_at: time(),
        itinerary_applied: Some(false),
        itinerary_not_applied_reason: Some("no_proposal"),
    };
    let bare = TripView { itinerary_applied: None, itinerary_not_applied_reason: None, ..full.clone() };
    assert_shows("Trip", &bare, &full);
    assert_shows("Proposal", &proposal, &proposal);
    assert_shows("ShownTravelDates", &TravelDates::default(), &TravelDates::default());
    assert_shows("ShownParty", &Party::default(), &Party::default());
    assert_shows("ShownBudget", &Budget::default(), &Budget::default());
}

#[test]
fn a_batch_result_shows_what_its_schema_says() {
    let full = EventResult {
        event_id: "e".to_owned(),
        status: EventStatus::Failed,
        error: Some("internal_error".to_owned()),
        client_id: Some(ClientId(Uuid::nil())),
        lead_id: Some(LeadId(Uuid::nil())),
        trip_id: Some(TripId(Uuid::nil())),
        warnings: vec!["enquiry_not_found".to_owned()],
        traveller_discovery: Some(TravellerDiscovery { discovery_id: DiscoveryId(Uuid::nil()) }),
    };
    let bare = EventResult {
        error: None,
        client_id: None,
        lead_id: None,
        trip_id: None,
        warnings: Vec::new(),
        traveller_discovery: None,
        ..full.clone()
    };
    assert_shows("EventResult", &bare, &full);
    assert_shows("BatchResult", &BatchResult::default(), &BatchResult::default());
}

#[test]
fn every_stage_is_a_value_of_the_schema() {
    let document = openapi::document();
    let stages: Vec<Value> = Stage::ALL.iter().map(|stage| to_value(stage).unwrap()).collect();
    assert_eq!(named(&document, "Stage").values, stages);
}
