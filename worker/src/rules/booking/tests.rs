use super::*;
use crate::rules::testing::World;
use crate::rules::{Cause, Context};
use crate::state::{CreditState, Money};
use common::event::{EventResult, EventStatus, OutboundType};
use serde_json::{Value, json};

fn ana() -> Value {
    json!({"email": "ana@example.com"})
}

/// A tenant without members, so that the outbox has only the events that the test causes.
fn world() -> World {
    let mut world = World::new();
    world.members(&[]);
    world
}

fn submit(world: &mut World, external_id: &str) -> EventResult {
    world.send("enquiry.submitted", ana(), json!({"externalLeadId": external_id}))
}

fn send(world: &mut World, kind: &str, payload: Value) -> EventResult {
    let result = world.send(kind, ana(), payload);
    assert_eq!(result.status, EventStatus::Accepted);
    result
}

fn put_at(world: &mut World, lead: LeadId, to: Stage) {
    let cause = Cause::crm(world.now);
    world.run(|state, ctx: &mut Context<'_>| stage::move_to(state, lead, to, None, &cause, ctx)).unwrap();
    world.state.outbox.clear();
}

fn ids(result: &EventResult) -> (Option<LeadId>, Option<TripId>) {
    (result.lead_id, result.trip_id)
}

const STARTED: &str = "booking.started";
const ABANDONED: &str = "booking.abandoned";
const COMPLETED: &str = "booking.completed";

#[test]
fn started_never_regresses_a_stage() {
    for at in Stage::ALL {
        let mut world = world();
        let lead = submit(&mut world, "p-1").lead_id.unwrap();
        put_at(&mut world, lead, at);
        let result = send(&mut world, STARTED, json!({"leadId": lead}));
        let moves = matches!(at, Stage::Inquiry | Stage::FollowUp | Stage::BuildingProposal | Stage::Negotiation);
        assert_eq!(world.stage(lead), if moves { "proposal_approved" } else { at.as_str() });
        assert_eq!(world.state.outbox.len(), usize::from(moves));
        assert_eq!(result.lead_id, at.is_open().then_some(lead), "{at}");
        let expected = if at.is_open() { vec![] } else { vec![NO_OPEN_ENQUIRY.to_owned()] };
        assert_eq!((result.trip_id.is_some(), result.warnings), (at.is_open(), expected), "{at}");
    }
}

#[test]
fn without_an_open_lead_started_and_abandoned_are_timeline_only() {
    for kind in [STARTED, ABANDONED] {
        let mut world = world();
        let result = send(&mut world, kind, json!({}));
        assert_eq!((ids(&result), &result.warnings[..]), ((None, None), &[NO_OPEN_ENQUIRY.to_owned()][..]));
        assert!(result.warning_details[0].reason.contains("timeline only"), "{result:?}");
        let lead = submit(&mut world, "p-1").lead_id.unwrap();
        put_at(&mut world, lead, Stage::Lost);
        assert_eq!(ids(&send(&mut world, kind, json!({}))), (None, None));
        assert_eq!((world.stage(lead), world.lead(lead).follow_up), ("lost", false));
        assert_eq!((world.state.outbox.len(), world.state.timeline.len()), (0, 3));
    }
}

#[test]
fn abandoned_flags_for_follow_up_and_leaves_the_stage() {
    let mut world = world();
    let opened = submit(&mut world, "p-1");
    let lead = opened.lead_id.unwrap();
    put_at(&mut world, lead, Stage::Negotiation);
    let version = world.lead(lead).updated_at;
    assert_eq!(ids(&send(&mut world, ABANDONED, json!({}))), ids(&opened));
    assert_eq!((world.stage(lead), world.lead(lead).follow_up), ("negotiation", true));
    let flagged = world.lead(lead).updated_at;
    assert!(flagged > version && world.state.outbox.is_empty());
    send(&mut world, ABANDONED, json!({}));
    assert_eq!(world.lead(lead).updated_at, flagged);
}

#[test]
fn lead_id_precedes_trip_id_and_external_id() {
    let mut world = world();
    let [a, b, c] = ["p-1", "p-2", "p-3"].map(|id| submit(&mut world, id));
    let by_all = json!({"leadId": a.lead_id, "tripId": b.trip_id, "externalLeadId": "p-3"});
    assert_eq!(ids(&send(&mut world, ABANDONED, by_all)), ids(&a));
    let by_two = json!({"leadId": null, "tripId": b.trip_id, "externalLeadId": "p-3"});
    assert_eq!(ids(&send(&mut world, ABANDONED, by_two)), ids(&b));
    let by_one = json!({"leadId": "", "externalLeadId": " p-3 "});
    assert_eq!(ids(&send(&mut world, ABANDONED, by_one)), ids(&c));
}

#[test]
fn completed_forces_trip_booked_from_any_stage() {
    for at in Stage::ALL {
        let mut world = world();
        let opened = submit(&mut world, "p-1");
        let lead = opened.lead_id.unwrap();
        put_at(&mut world, lead, at);
        assert_eq!(ids(&send(&mut world, COMPLETED, json!({}))), ids(&opened), "{at}");
        assert_eq!(world.stage(lead), "trip_booked");
        assert_eq!(world.state.outbox.len(), usize::from(at != Stage::TripBooked), "{at}");
    }
}

#[test]
fn completed_with_a_reference_makes_an_invoice_and_confirms_the_booking() {
    let mut world = world();
    let opened = submit(&mut world, "p-1");
    let payload = json!({"bookingRef": " BR-1 ", "amount": 1500.505, "currency": "INR", "creditUsed": 200});
    assert!(send(&mut world, COMPLETED, payload).warnings.is_empty());
    let invoice = world.state.invoices.get(&"BR-1".to_owned()).unwrap();
    assert_eq!((Some(invoice.lead_id), invoice.trip_id), ids(&opened));
    assert_eq!((invoice.amount, invoice.credit_used), (Some(Money(150_051)), Some(Money(20_000))));
    assert_eq!((invoice.credit_state, invoice.balance_due), (CreditState::Pending, Money(0)));
    let confirmed = world.state.outbox.last().unwrap();
    assert_eq!(confirmed.event_type, OutboundType::BookingConfirmed);
    let expected = (Some("ck_test"), "partner-site");
    assert_eq!((confirmed.key_prefix.as_deref(), confirmed.origin.as_str()), expected);
    let expected = json!({
        "leadId": opened.lead_id, "tripId": opened.trip_id, "clientId": opened.client_id,
        "enquiryNumber": "ENQ-2026-000001", "externalId": "p-1", "version": "2026-05-01T12:00:00.002Z",
        "bookingRef": "BR-1", "amount": 1500.51, "currency": "INR", "creditUsed": 200,
    });
    assert_eq!(confirmed.payload, expected);
    assert_eq!(world.state.outbox[0].payload["version"], "2026-05-01T12:00:00.001Z");
}

#[test]
fn credit_is_absent_if_none_was_stated() {
    let mut world = world();
    submit(&mut world, "p-1");
    send(&mut world, COMPLETED, json!({"bookingRef": "BR-1"}));
    let confirmed = &world.state.outbox.last().unwrap().payload;
    assert_eq!((confirmed.get("creditUsed"), &confirmed["amount"]), (None, &Value::Null));
    assert_eq!(world.state.invoices.get(&"BR-1".to_owned()).unwrap().credit_state, CreditState::None);
    send(&mut world, COMPLETED, json!({"bookingRef": "BR-2", "creditUsed": 0}));
    assert_eq!(world.state.outbox.last().unwrap().payload["creditUsed"], json!(0));
    assert_eq!(world.state.invoices.get(&"BR-2".to_owned()).unwrap().credit_state, CreditState::None);
}

#[test]
fn the_reference_of_a_cancelled_booking_books_nothing() {
    let mut world = world();
    submit(&mut world, "p-1");
    send(&mut world, COMPLETED, json!({"bookingRef": "BR-1"}));
    let now = world.now;
    world.state.invoices.change(&"BR-1".to_owned()).unwrap().cancelled_at = Some(now);
    let opened = submit(&mut world, "p-2");
    let events = world.state.outbox.len();
    let again = send(&mut world, COMPLETED, json!({"bookingRef": " BR-1 "}));
    assert_eq!(again.warnings, ["booking_cancelled"]);
    assert_eq!((world.stage(opened.lead_id.unwrap()), world.state.outbox.len()), ("inquiry", events));
    send(&mut world, COMPLETED, json!({"bookingRef": "BR-2"}));
    assert_eq!(world.stage(opened.lead_id.unwrap()), "trip_booked");
}

#[test]
fn a_reference_is_confirmed_once() {
    let mut world = world();
    submit(&mut world, "p-1");
    send(&mut world, COMPLETED, json!({"bookingRef": "BR-1", "amount": 10, "currency": "INR"}));
    let events = world.state.outbox.len();
    let again = send(&mut world, COMPLETED, json!({"bookingRef": "BR-1", "amount": 99}));
    assert!(again.warnings.is_empty());
    submit(&mut world, "p-2");
    let conflict = send(&mut world, COMPLETED, json!({"bookingRef": "BR-1"}));
    assert_eq!(conflict.warnings, ["booking_ref_conflict"]);
    assert_eq!(world.stage(conflict.lead_id.unwrap()), "trip_booked");
    let confirmed = |event: &&crate::state::OutboundEvent| event.event_type == OutboundType::BookingConfirmed;
    assert_eq!(world.state.outbox[events..].iter().filter(confirmed).count(), 0);
    assert_eq!(world.state.invoices.get(&"BR-1".to_owned()).unwrap().amount, Some(Money(1000)));
}

#[test]
fn invalid_fields_of_a_booking_are_left_out_with_a_warning() {
    let mut world = world();
    submit(&mut world, "p-1");
    let payload = json!({"bookingRef": "BR-1", "amount": "10", "currency": "rupees", "creditUsed": -1});
    let warnings = send(&mut world, COMPLETED, payload).warnings;
    let expected = ["amount", "currency", "creditUsed"].map(|field| format!("booking_field_rejected:{field}"));
    assert_eq!(warnings, expected);
    let invoice = world.state.invoices.get(&"BR-1".to_owned()).unwrap();
    assert_eq!((invoice.amount, invoice.currency.as_deref(), invoice.credit_used), (None, None, None));
    for wrong in [json!(7), json!(" "), json!("x".repeat(101))] {
        let result = send(&mut world, COMPLETED, json!({"bookingRef": wrong}));
        assert_eq!(result.warnings, ["booking_field_rejected:bookingRef"]);
    }
    assert_eq!(world.state.invoices.values().count(), 1);
}
