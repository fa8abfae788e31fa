use super::super::testing::{if_match, lead_id};
use crate::rules::testing::World;
use chrono::TimeDelta;
use common::model::Stage;
use common::write::{IfMatch, WriteRefusal};
use serde_json::{Value, json};

const MEMBERS: [&str; 2] = ["asha@agency.com", "ben@agency.com"];

/// A tenant with a lead that Asha owns, whose inbox, notifications and outbox are cleared.
fn opened() -> (World, Value) {
    let mut world = World::new();
    world.members(&MEMBERS);
    let lead = world.post_lead(json!({"contact": {"email": "ana@example.com"}})).unwrap();
    world.clear_messages();
    (world, lead)
}

fn without_trip(world: &mut World) {
    world.state.trips = Default::default();
    world.state.proposals = Default::default();
}

#[test]
fn stages_are_set_or_refused_as_specified() {
    use WriteRefusal::{ReasonRequired, StageNotAllowed};
    for has_trip in [true, false] {
        for to in Stage::ALL {
            for reason in [None, Some("four"), Some("fiver")] {
                let (mut world, lead) = opened();
                if !has_trip {
                    without_trip(&mut world);
                }
                let mut body = json!({"stage": to});
                if let Some(reason) = reason {
                    body["reason"] = json!(reason);
                }
                let expected = match to {
                    Stage::Inquiry | Stage::FollowUp => None,
                    Stage::BuildingProposal | Stage::Negotiation if has_trip => None,
                    Stage::Lost if reason == Some("fiver") => None,
                    Stage::Lost => Some(ReasonRequired),
                    Stage::BuildingProposal
                    | Stage::Negotiation
                    | Stage::ProposalApproved
                    | Stage::TripBooked
                    | Stage::Travelled
                    | Stage::Archived => Some(StageNotAllowed),
                };
                let done = world.patch_lead(&lead, body);
                assert_eq!(done.as_ref().err(), expected.as_ref(), "{to}, trip: {has_trip}, {reason:?}");
                if let Ok(after) = done {
                    assert_eq!(after["stage"], json!(to));
                }
            }
        }
    }
}

#[test]
fn the_length_of_a_reason_excludes_surrounding_blanks() {
    let (mut world, lead) = opened();
    for short in ["", "    ", " four ", "é è ", "\t\n four"] {
        let refused = world.patch_lead(&lead, json!({"stage": "lost", "reason": short}));
        assert_eq!(refused, Err(WriteRefusal::ReasonRequired), "{short:?}");
    }
    world.patch_lead(&lead, json!({"stage": "lost", "reason": " éèêëç "})).unwrap();
    assert_eq!(world.lead(lead_id(&lead["id"])).lost_reason.as_deref(), Some("éèêëç"));
}

#[test]
fn a_change_without_a_difference_keeps_the_version() {
    let (mut world, lead) = opened();
    world.now += TimeDelta::seconds(1);
    let same = json!({"title": lead["title"], "followUp": false, "stage": "inquiry", "owner": MEMBERS[0]});
    for body in [json!({}), same, json!({"reason": "of nothing"})] {
        assert_eq!(world.patch_lead(&lead, body).unwrap(), lead);
    }
    assert!(world.state.outbox.is_empty() && world.state.notifications.is_empty());
}

#[test]
fn a_condition_must_match_the_version() {
    let (mut world, first) = opened();
    let second = world.patch_lead_if(&first, json!({"title": "B"}), Some(&if_match(&first))).unwrap();
    let stale = WriteRefusal::StaleWrite { updated_at: second["updatedAt"].as_str().unwrap().to_owned() };
    // The version is checked before everything else.
    let body = json!({"stage": "archived", "owner": "nobody@agency.com"});
    assert_eq!(world.patch_lead_if(&first, body, Some(&if_match(&first))), Err(stale));
    world.patch_lead_if(&first, json!({"title": "C"}), Some(&IfMatch::Any)).unwrap();
    world.patch_lead(&first, json!({"title": "D"})).unwrap();
}
