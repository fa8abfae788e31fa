use super::*;
use crate::rules::testing::World;
use crate::state::ProposalStatus;
use chrono::NaiveDate;
use common::event::EventStatus;
use serde_json::json;

const KIND: &str = "enquiry.submitted";

fn submit(world: &mut World, payload: Value) -> (LeadId, Vec<String>) {
    let result = world.send(KIND, json!({"email": "ana@example.com", "name": "Ana"}), payload);
    assert_eq!(result.status, EventStatus::Accepted);
    (result.lead_id.unwrap(), result.warnings)
}

#[test]
fn opens_a_lead_at_inquiry_with_a_trip_and_a_draft_proposal() {
    let mut world = World::new();
    let result =
        world.send(KIND, json!({"email": "ana@example.com", "name": "Ana"}), json!({"destination": "Goa"}));
    let lead = world.lead(result.lead_id.unwrap());
    assert_eq!((Some(lead.client_id), lead.stage, lead.follow_up), (result.client_id, Stage::Inquiry, false));
    assert_eq!(lead.enquiry_number, "ENQ-2026-000001");
    assert_eq!((lead.brief.clone(), lead.created_at == lead.updated_at), (Brief::default(), true));
    let trip = world.state.trip_of(lead.id).unwrap();
    assert_eq!((Some(trip.id), &trip.title), (result.trip_id, &lead.title));
    assert_eq!(trip.brief.destination.as_deref(), Some("Goa"));
    let proposals: Vec<_> = world.state.proposals.values().map(|p| (p.trip_id, p.status)).collect();
    assert_eq!(proposals, [(trip.id, ProposalStatus::Draft)]);
    assert!(world.state.itineraries.values().next().is_none() && world.state.inbox.is_empty());
}

#[test]
fn the_first_stage_emits_no_stage_change() {
    let mut world = World::new();
    submit(&mut world, json!({}));
    let kinds: Vec<_> = world.state.outbox.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(kinds, ["lead.assigned"]);
}

#[test]
fn every_submission_opens_another_lead_with_the_next_number() {
    let mut world = World::new();
    let (first, _) = submit(&mut world, json!({"externalLeadId": "p-7"}));
    let (second, _) = submit(&mut world, json!({"externalLeadId": "p-7"}));
    assert_ne!(first, second);
    assert_eq!(world.lead(second).enquiry_number, "ENQ-2026-000002");
    assert_eq!(world.lead(first).external_id, world.lead(second).external_id);
    assert_eq!(world.lead(first).client_id, world.lead(second).client_id);
}

#[test]
fn without_a_title_one_is_made_of_destination_or_client() {
    let mut world = World::new();
    let long = "x".repeat(300);
    let table = [
        (json!({"title": " Honeymoon ", "destination": "Goa"}), "Honeymoon".to_owned()),
        (json!({"destination": "Goa"}), "Trip to Goa".to_owned()),
        (json!({"destination": long}), format!("Trip to {}", "x".repeat(192))),
        (json!({}), "Enquiry from Ana".to_owned()),
        (json!({"title": " ", "destination": ""}), "Enquiry from Ana".to_owned()),
    ];
    for (payload, title) in table {
        let (lead, warnings) = submit(&mut world, payload);
        assert_eq!((&world.lead(lead).title, warnings), (&title, vec![]));
    }
}

#[test]
fn stores_the_whole_brief() {
    let mut world = World::new();
    let (lead, warnings) = submit(
        &mut world,
        json!({"travelDates": {"start": "2027-05-01", "end": "2027-05-09"},
            "party": {"adults": 2, "rooms": 1},
            "budget": {"amount": 90000, "currency": "INR"}, "destination": "Goa", "guestNationality": "IN",
            "attribution": {"campaign": "spring"}, "externalLeadId": "p-7", "somethingElse": 1}),
    );
    assert_eq!(warnings, Vec::<String>::new());
    let brief = &world.state.trip_of(lead).unwrap().brief;
    assert_eq!(brief.travel_dates.unwrap().start_date, NaiveDate::from_ymd_opt(2027, 5, 1));
    assert_eq!(brief.party.as_ref().unwrap().adults, Some(2));
    assert_eq!(brief.budget.as_ref().unwrap().currency.as_deref(), Some("INR"));
    assert_eq!(brief.guest_nationality.as_deref(), Some("IN"));
    assert_eq!(world.lead(lead).attribution, Some(json!({"campaign": "spring"})));
    assert_eq!(world.lead(lead).external_id.as_deref(), Some("p-7"));
}

#[test]
fn invalid_fields_give_warnings_in_order_and_the_lead_still_opens() {
    let mut world = World::new();
    world.send("contact.identified", json!({"externalId": "x-1"}), json!({}));
    let fields = [
        "travelDates",
        "party",
        "paxCount",
        "budget",
        "destination",
        "guestNationality",
        "title",
        "message",
        "attribution",
        "externalLeadId",
    ];
    let mut payload = json!({"itinerarySnapshot": {"title": "no days"}});
    for field in fields {
        payload[field] = json!(true);
    }
    let result = world.send(KIND, json!({"email": "ana@example.com", "externalId": "x-1"}), payload);
    let mut expected = vec!["identity_conflict:externalId".to_owned()];
    expected.extend(fields.map(|field| format!("brief_field_rejected:{field}")));
    expected.push("itinerary_rejected".to_owned());
    assert_eq!((result.status, result.warnings), (EventStatus::Accepted, expected));
    let lead = world.lead(result.lead_id.unwrap());
    assert_eq!(world.state.trip_of(lead.id).unwrap().brief, Brief::default());
    assert_eq!((&lead.external_id, &lead.attribution), (&None, &None));
    assert!(world.state.inbox.is_empty() && world.state.itineraries.values().next().is_none());
}

#[test]
fn the_message_opens_the_inbox_thread() {
    let mut world = World::new();
    let (lead, _) = submit(&mut world, json!({"message": " We'd love the sea. "}));
    let [message] = &world.state.inbox[..] else { panic!("one message") };
    assert_eq!((message.lead_id, message.kind), (lead, InboxKind::Message));
    assert_eq!(message.text.as_deref(), Some(" We'd love the sea. "));
}

#[test]
fn a_valid_itinerary_is_stored_on_the_draft_proposal_as_sent() {
    let mut world = World::new();
    let snapshot = r#"{"title":"Goa",  "days":[{"title":"1","items":[{"title":"x","price":1.50}]}]}"#;
    let payload = format!(r#"{{"itinerarySnapshot": {snapshot}}}"#);
    let result = world.send_raw(KIND, json!({"phone": "1"}), &payload);
    assert!(result.warnings.is_empty());
    let [stored] = &world.state.itineraries.values().collect::<Vec<_>>()[..] else { panic!("one itinerary") };
    assert_eq!(stored.snapshot, snapshot);
    assert_eq!(world.state.proposals.get(&stored.proposal_id).map(|p| p.trip_id), result.trip_id);
}

#[test]
fn a_lead_opened_without_a_trip_stores_the_brief_itself() {
    let mut world = World::new();
    let client_id = world.send("contact.identified", json!({"phone": "1"}), json!({})).client_id.unwrap();
    let brief = Brief { destination: Some("Goa".to_owned()), ..Brief::default() };
    let new = NewLead { with_trip: false, brief: brief.clone(), ..NewLead::for_client(client_id) };
    let opened = world.run(|state, ctx| open(state, new, &Cause::crm(ctx.now), ctx)).unwrap();
    assert_eq!(opened.trip_id, None);
    assert_eq!(world.lead(opened.lead_id).brief, brief);
    assert!(world.state.trips.values().next().is_none() && world.state.proposals.values().next().is_none());
}

#[test]
fn without_a_reserved_number_opening_is_an_internal_error() {
    let mut world = World::new();
    world.reserve(0);
    let error = world.try_send(KIND, json!({"phone": "1"}), json!({})).unwrap_err();
    assert!(error.to_string().contains("number"));
}
