use super::super::testing::{if_match, lead_id};
use super::super::{Record, Write};
use super::*;
use crate::rules::testing::World;
use crate::state::LedgerEntry;
use common::record::parse;
use uuid::Uuid;

/// A tenant with a lead, whose inbox, notifications and outbox are cleared.
fn opened() -> (World, Value) {
    let mut world = World::new();
    let lead = world.post_lead(json!({"contact": {"email": "ana@example.com"}, "destination": "Goa"})).unwrap();
    world.clear_messages();
    (world, lead)
}

fn itinerary() -> Value {
    json!({"title": "G", "days": [{"title": "1", "items": [{"title": "Beach"}]}]})
}

fn put_at(world: &mut World, lead: &Value, stage: Stage) {
    world.state.leads.change(&lead_id(&lead["id"])).unwrap().stage = stage;
}

fn put_proposal(world: &mut World, status: ProposalStatus) {
    let id = world.state.proposals.values().next().unwrap().id;
    world.state.proposals.change(&id).unwrap().status = status;
}

/// Kind, text and changes of what was posted.
fn posted(world: &World) -> Vec<Value> {
    let one = |message: &InboxMessage| json!([message.kind.as_str(), message.text, message.changes]);
    world.state.inbox.iter().map(one).collect()
}

#[test]
fn a_correction_alone_is_posted_once_with_the_summary_as_its_reason() {
    let (mut world, lead) = opened();
    let dates = |day: u32| json!({"startDate": format!("2027-05-{day:02}"), "endDate": "2027-05-20"});
    world.patch_trip(&lead, json!({"travelDates": dates(1)})).unwrap();
    world.clear_messages();
    world.patch_trip(&lead, json!({"travelDates": dates(2), "changeSummary": "School"})).unwrap();
    let change = json!({"travelDates": {"from": dates(1), "to": dates(2)}});
    assert_eq!(posted(&world), [json!(["correction", "School", change])]);
}

#[test]
fn a_message_alone_is_posted_and_the_owner_is_notified() {
    for (body, kind) in [(json!({"changeSummary": "Called"}), "change"), (json!({"message": "Called"}), "message")] {
        let (mut world, lead) = opened();
        world.patch_trip(&lead, body).unwrap();
        assert_eq!(posted(&world), [json!([kind, "Called", null])]);
        assert_eq!(world.state.notifications.len(), 1);
    }
}

#[test]
fn a_change_without_a_difference_posts_nothing_and_keeps_the_version() {
    let (mut world, lead) = opened();
    let trip = world.trip_now(&lead);
    for same in [json!({}), json!({"destination": "Goa", "title": trip["title"], "guestNationality": ""})] {
        assert_eq!(world.patch_trip(&lead, same).unwrap(), trip);
    }
    assert!(world.state.inbox.is_empty() && world.state.notifications.is_empty());
}

#[test]
fn without_an_owner_a_change_is_posted_but_nobody_is_notified() {
    let mut world = World::new();
    world.members(&[]);
    let lead = world.post_lead(json!({"contact": {"phone": "1"}})).unwrap();
    world.patch_trip(&lead, json!({"message": "Anyone?"})).unwrap();
    assert_eq!((world.state.inbox.len(), world.state.notifications.len()), (1, 0));
}

#[test]
fn whether_an_itinerary_is_applied_depends_on_the_proposal_then_on_the_stage() {
    use NotApplied::{AdvisorWorking, NoProposal, ProposalSent};
    use ProposalStatus::{Discarded, Draft, Sent, Viewed};
    let open = Stage::ALL.into_iter().filter(|stage| stage.is_open());
    for stage in open {
        for status in [Draft, Sent, Viewed, Discarded] {
            let (mut world, lead) = opened();
            put_at(&mut world, &lead, stage);
            put_proposal(&mut world, status);
            let expected = match (status, stage) {
                (Sent | Viewed, _) => Some(ProposalSent),
                (Discarded, _) => Some(NoProposal),
                (Draft, Stage::Inquiry | Stage::FollowUp) => None,
                (Draft, _) => Some(AdvisorWorking),
            };
            let trip = world.patch_trip(&lead, json!({"itinerary": itinerary(), "title": "New"})).unwrap();
            let case = format!("{stage}, {status:?}");
            assert_eq!(trip["itineraryApplied"], json!(expected.is_none()), "{case}");
            let reason = trip.get("itineraryNotAppliedReason").and_then(Value::as_str);
            assert_eq!(reason, expected.map(NotApplied::as_str), "{case}");
            assert_eq!(world.state.itineraries.values().count(), usize::from(expected.is_none()), "{case}");
            assert_eq!(trip["title"], "New", "the rest is kept: {case}");
            let told = &world.state.inbox[0].changes.as_ref().unwrap()["itinerary"];
            let wanted = (&json!(expected.is_none()), reason);
            assert_eq!((&told["applied"], told.get("reason").and_then(Value::as_str)), wanted);
        }
    }
}

#[test]
fn every_change_increases_the_version_of_the_trip() {
    let (mut world, lead) = opened();
    let itinerary = json!({"itinerary": itinerary()});
    for (body, stage) in [
        (itinerary.clone(), Stage::Inquiry),
        (itinerary, Stage::Negotiation),
        (json!({"message": "Hello"}), Stage::Inquiry),
        (json!({"changeSummary": "Hello"}), Stage::Inquiry),
    ] {
        put_at(&mut world, &lead, stage);
        let before = (world.trip_now(&lead), world.lead_now(&lead));
        let condition = if_match(&before.0);
        let after = world.patch_trip_if(&lead, body.clone(), Some(&condition)).unwrap();
        assert!(after["updatedAt"].as_str() > before.0["updatedAt"].as_str(), "{body}");
        let again = world.patch_trip_if(&lead, body, Some(&condition));
        assert!(matches!(again, Err(WriteRefusal::StaleWrite { .. })), "of two with one version: {again:?}");
        assert_eq!(world.lead_now(&lead), before.1, "the lead shows nothing of it");
    }
}

#[test]
fn the_ledger_entry_of_a_change_restores_its_response() {
    let entry = |warnings: Vec<String>| LedgerEntry {
        event_id: "connect-api:x".to_owned(),
        event_type: "trip.changed".to_owned(),
        key_prefix: "ck_test".to_owned(),
        request_id: Uuid::nil(),
        ordinal: 0,
        client_id: None,
        lead_id: None,
        trip_id: None,
        discovery_id: None,
        warnings,
        trace_id: None,
    };
    let id = LeadId(Uuid::from_u128(1));
    let with = |body: &Value| Write::Trip(id, Box::new(parse(body.to_string().as_bytes()).unwrap()));
    for outcome in NotApplied::ALL.map(Err).into_iter().chain([Ok(())]) {
        let record = Record::Trip(id, Some(outcome));
        let entry = entry(record.warnings());
        assert_eq!(with(&json!({"itinerary": itinerary()})).record(&entry), Some(record));
    }
    let record = Record::Trip(id, None);
    assert_eq!(with(&json!({"title": "x"})).record(&entry(record.warnings())), Some(record));
}
