use super::*;
use crate::rules::testing::World;
use serde_json::{Value, json};

const SUBMITTED: &str = "enquiry.submitted";
const DISCOVERY: &str = "traveller.discovery_upserted";

/// What is reserved for a batch, and what applying it takes.
fn wanted_and_taken(world: &mut World, batch: &[(&str, &str, Value)]) -> (usize, usize) {
    let body = World::body(batch);
    let wanted = world.opens_wanted(&body);
    let before = world.state.leads.keys().count();
    world.reserve(wanted);
    world.apply(&body).expect("enough numbers are reserved");
    (wanted, world.state.leads.keys().count() - before)
}

fn ana() -> Value {
    json!({"email": "ana@example.com"})
}

#[test]
fn a_block_gives_its_numbers_and_no_more() {
    let mut block = NumberBlock::new(2026, 41, 2);
    assert_eq!((block.take(), block.take()), (Ok((2026, 41)), Ok((2026, 42))));
    assert!(block.take().is_err() && block.take().is_err());
    assert!(NumberBlock::new(2026, 1, 0).take().is_err());
}

#[test]
fn each_new_submission_takes_a_number_and_repeats_take_none() {
    let mut world = World::new();
    world.send_as("known", SUBMITTED, ana(), json!({}));
    let batch = [
        ("a", SUBMITTED, ana()),
        ("known", SUBMITTED, ana()),
        ("a", SUBMITTED, ana()),
        ("b", SUBMITTED, ana()),
    ];
    assert_eq!(wanted_and_taken(&mut world, &batch), (2, 2));
}

#[test]
fn a_repeat_of_an_event_that_failed_can_take_a_number() {
    let mut world = World::new();
    let batch = [("a", "contact.updated", ana()), ("a", SUBMITTED, ana())];
    assert_eq!(wanted_and_taken(&mut world, &batch), (1, 1));
}

#[test]
fn discovery_takes_one_for_a_contact_without_an_open_enquiry() {
    let mut world = World::new();
    let bob = json!({"email": "bob@example.com"});
    world.send(SUBMITTED, bob.clone(), json!({}));
    let upper = json!({"email": "ANA@example.com"});
    let batch = [
        ("a", DISCOVERY, ana()),
        ("b", DISCOVERY, upper),
        ("c", DISCOVERY, bob),
        ("d", "contact.identified", ana()),
    ];
    assert_eq!(wanted_and_taken(&mut world, &batch), (1, 1));
    assert_eq!(wanted_and_taken(&mut world, &[("e", DISCOVERY, ana())]), (0, 0));
}

#[test]
fn discovery_takes_none_after_a_submission_and_one_before_it() {
    let mut world = World::new();
    assert_eq!(wanted_and_taken(&mut world, &[("a", SUBMITTED, ana()), ("b", DISCOVERY, ana())]), (1, 1));
    let mut world = World::new();
    assert_eq!(wanted_and_taken(&mut world, &[("a", DISCOVERY, ana()), ("b", SUBMITTED, ana())]), (2, 2));
}

#[test]
fn a_booking_in_the_unit_may_make_room_for_another_enquiry() {
    let mut world = World::new();
    let named = json!({"externalId": "x-1"});
    let both = json!({"email": "ana@example.com", "externalId": "x-1"});
    let batch = [("a", DISCOVERY, both), ("b", "booking.completed", named), ("c", DISCOVERY, ana())];
    assert_eq!(wanted_and_taken(&mut world, &batch), (2, 2));
}

#[test]
fn anothers_booking_makes_no_difference() {
    let mut world = World::new();
    world.send(SUBMITTED, ana(), json!({}));
    let batch = [("a", "booking.completed", json!({"email": "bob@example.com"})), ("b", DISCOVERY, ana())];
    assert_eq!(wanted_and_taken(&mut world, &batch), (0, 0));
}

#[test]
fn an_identity_that_moves_within_the_unit_is_reckoned_with() {
    let mut world = World::new();
    world.send(SUBMITTED, json!({"email": "ana@example.com", "phone": "12"}), json!({}));
    let batch = [
        ("a", DISCOVERY, json!({"phone": "12"})),
        ("b", "contact.identified", json!({"email": "ana@example.com", "phone": "34"})),
        ("c", DISCOVERY, json!({"phone": "12"})),
    ];
    assert_eq!(wanted_and_taken(&mut world, &batch), (2, 1));
}
