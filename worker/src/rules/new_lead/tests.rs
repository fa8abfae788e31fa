use super::*;
use crate::rules::testing::World;
use common::event::EventStatus;
use serde_json::json;

const KIND: &str = "enquiry.submitted";

fn submit(world: &mut World, payload: Value) -> (LeadId, Vec<String>) {
    let result = world.send(KIND, json!({"email": "ana@example.com", "name": "Ana"}), payload);
    assert_eq!(result.status, EventStatus::Accepted);
    (result.lead_id.unwrap(), result.warnings)
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
fn invalid_fields_give_warnings_in_order_and_the_lead_still_opens() {
    let mut world = World::new();
    world.send("contact.identified", json!({"externalId": "x-1"}), json!({}));
    let fields = [
        "travelDates", "party", "paxCount", "budget", "destination", "guestNationality", "title", "message",
        "attribution", "externalLeadId",
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
fn without_a_reserved_number_opening_is_an_internal_error() {
    let mut world = World::new();
    world.reserve(0);
    let error = world.try_send(KIND, json!({"phone": "1"}), json!({})).unwrap_err();
    assert!(error.to_string().contains("number"));
}
