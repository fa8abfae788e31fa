use crate::rules::testing::World;
use common::model::ClientId;
use serde_json::{Value, json};

const KIND: &str = "contact.identified";

fn identify(world: &mut World, actor: Value) -> ClientId {
    world.send(KIND, actor, json!({})).client_id.unwrap()
}

#[test]
fn a_new_client_is_named_after_the_best_that_is_known() {
    let mut world = World::new();
    let table = [
        (json!({"email": "a@example.com", "name": "Ana"}), "Ana"),
        (json!({"email": "b@example.com", "phone": "12", "externalId": "x-2"}), "b@example.com"),
        (json!({"phone": "+3 4", "externalId": "x-3"}), "+3 4"),
        (json!({"externalId": "x-4"}), "x-4"),
    ];
    for (actor, name) in table {
        let client = identify(&mut world, actor);
        assert_eq!(world.client(client).name, name);
    }
}

#[test]
fn a_match_updates_the_name_and_phone_sent_and_keeps_the_rest() {
    let mut world = World::new();
    let ana = identify(&mut world, json!({"email": "ana@example.com", "name": "Ana", "phone": "12"}));
    identify(&mut world, json!({"email": "ana@example.com", "name": "Ana B"}));
    assert_eq!((world.client(ana).name.as_str(), world.client(ana).phone.as_ref().unwrap().as_str()), ("Ana B", "12"));
    identify(&mut world, json!({"email": "ana@example.com", "phone": "3 4"}));
    assert_eq!((world.client(ana).name.as_str(), world.client(ana).phone.as_ref().unwrap().as_str()), ("Ana B", "3 4"));
}

#[test]
fn the_version_increases_only_with_a_difference() {
    let mut world = World::new();
    let ana = identify(&mut world, json!({"email": "ana@example.com", "name": "Ana"}));
    let first = world.client(ana).updated_at;
    identify(&mut world, json!({"email": "ANA@example.com", "name": "Ana"}));
    assert_eq!(world.client(ana).updated_at, first);
    identify(&mut world, json!({"email": "ana@example.com", "name": "Ana B"}));
    identify(&mut world, json!({"email": "ana@example.com", "name": "Ana C"}));
    assert_eq!(world.client(ana).updated_at, first + chrono::TimeDelta::milliseconds(2));
    assert_eq!(world.client(ana).created_at, first);
}

#[test]
fn a_match_by_email_is_given_an_unused_external_id() {
    let mut world = World::new();
    let ana = identify(&mut world, json!({"email": "ana@example.com"}));
    identify(&mut world, json!({"email": "ana@example.com", "externalId": "x-1"}));
    assert_eq!(identify(&mut world, json!({"externalId": "x-1"})), ana);
    identify(&mut world, json!({"email": "ana@example.com", "externalId": "x-2"}));
    assert_eq!(identify(&mut world, json!({"externalId": "x-2"})), ana);
    assert_ne!(identify(&mut world, json!({"externalId": "x-1"})), ana);
}

#[test]
fn timeline_only_events_upsert_their_contact_and_change_no_lead() {
    for kind in ["contact.identified", "trip.planning_started", "trip.draft_updated", "quote.requested"] {
        let mut world = World::new();
        let opened = world.send("enquiry.submitted", json!({"email": "ana@example.com"}), json!({}));
        let lead = world.lead(opened.lead_id.unwrap()).clone();
        let result = world.send(kind, json!({"email": "ana@example.com", "name": "Ana"}), json!({"leadId": "x"}));
        let expected = (opened.client_id, None, None);
        assert_eq!((result.client_id, result.lead_id, result.trip_id), expected, "{kind}");
        assert_eq!(world.client(result.client_id.unwrap()).name, "Ana", "{kind}");
        assert_eq!(format!("{:?}", world.lead(lead.id)), format!("{lead:?}"), "{kind}");
        assert_eq!(world.state.leads.keys().count(), 1, "{kind}");
        assert!(world.send(kind, json!({"phone": "1"}), json!({})).client_id.is_some(), "{kind}");
    }
}

#[test]
fn contact_updated_patches_name_and_phone_and_nothing_else() {
    let mut world = World::new();
    let ana = identify(&mut world, json!({"email": "ana@example.com", "name": "Ana", "phone": "12"}));
    let actor = json!({"email": "ANA@example.com", "name": "Ana B", "externalId": "x-1"});
    assert_eq!(world.send("contact.updated", actor, json!({})).client_id, Some(ana));
    let client = world.client(ana);
    assert_eq!((client.name.as_str(), client.external_id.as_deref()), ("Ana B", None));
    let expected = ("12", "ana@example.com");
    assert_eq!((client.phone.as_ref().unwrap().as_str(), client.email.as_ref().unwrap().as_str()), expected);
    assert_eq!(world.state.timeline.len(), 2);
}
