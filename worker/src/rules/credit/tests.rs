use crate::rules::testing::World;
use crate::state::{CreditState, Money, NotificationKind};
use common::event::{EventResult, EventStatus};
use serde_json::{Value, json};

const APPLIED: &str = "booking.credit_applied";
const UPDATED: &str = "employee.credit_updated";

fn someone_else() -> Value {
    json!({"email": "desk@bank.com", "name": "Desk"})
}

fn apply(world: &mut World, payload: Value) -> EventResult {
    world.send(APPLIED, someone_else(), payload)
}

fn shortfalls(world: &World) -> usize {
    let all = world.state.notifications.iter();
    all.filter(|notification| notification.kind == NotificationKind::CreditShortfall).count()
}

#[test]
fn credit_taken_in_full_is_confirmed_for_the_invoices_client_and_nothing_is_due() {
    let mut world = World::new();
    let booked = world.booking("BR-1", 200);
    let clients = world.state.clients().keys().count();
    let result = apply(&mut world, json!({"bookingRef": " BR-1 ", "appliedRupees": 200}));
    let expected = (booked.client_id, booked.lead_id, booked.trip_id);
    assert_eq!((result.client_id, result.lead_id, result.trip_id), expected);
    let invoice = world.state.invoices.get(&"BR-1".to_owned()).unwrap();
    assert_eq!((invoice.credit_applied, invoice.credit_state), (Some(Money(20_000)), CreditState::Confirmed));
    assert_eq!((invoice.balance_due, shortfalls(&world)), (Money(0), 0));
    assert_eq!(world.state.clients().keys().count(), clients, "the actor is not upserted");
    assert_eq!(Some(world.state.timeline.last().unwrap().client_id), booked.client_id);
}

#[test]
fn less_credit_than_counted_as_paid_is_due_again_and_notifies_the_owner() {
    let mut world = World::new();
    let booked = world.booking("BR-1", 200);
    apply(&mut world, json!({"bookingRef": "BR-1", "appliedRupees": 50.25, "reason": "limit"}));
    let invoice = world.state.invoices.get(&"BR-1".to_owned()).unwrap();
    assert_eq!(invoice.balance_due, Money(14_975));
    let told = world.state.notifications.last().unwrap();
    assert_eq!((told.kind, told.to.as_str()), (NotificationKind::CreditShortfall, "advisor@agency.com"));
    assert_eq!(told.lead_id, booked.lead_id);
    assert!(told.text.contains("ENQ-2026-000001") && told.text.contains("149.75"), "{}", told.text);
    // The same amount again notifies nobody; another amount does.
    apply(&mut world, json!({"bookingRef": "BR-1", "appliedRupees": 50.25}));
    assert_eq!(shortfalls(&world), 1);
    apply(&mut world, json!({"bookingRef": "BR-1", "appliedRupees": 20}));
    assert_eq!(shortfalls(&world), 2);
    apply(&mut world, json!({"bookingRef": "BR-1", "appliedRupees": 900}));
    assert_eq!(world.state.invoices.get(&"BR-1".to_owned()).unwrap().balance_due, Money(0));
    assert_eq!(shortfalls(&world), 2);
}

#[test]
fn without_an_owner_nobody_is_notified() {
    let mut world = World::new();
    world.members(&[]);
    world.booking("BR-1", 200);
    apply(&mut world, json!({"bookingRef": "BR-1", "appliedRupees": 0}));
    assert_eq!(world.state.invoices.get(&"BR-1".to_owned()).unwrap().balance_due, Money(20_000));
    assert!(world.state.notifications.is_empty());
}

#[test]
fn without_a_reference_the_trips_newest_invoice_is_used() {
    let mut world = World::new();
    let trip = world.booking("BR-9", 10).trip_id;
    world.now += chrono::TimeDelta::seconds(1);
    let payload = json!({"bookingRef": "BR-1", "creditUsed": 20});
    world.send("booking.completed", json!({"email": "ana@example.com"}), payload);
    let result = apply(&mut world, json!({"tripId": trip, "bookingRef": null, "appliedRupees": 20}));
    assert_eq!((result.status, result.trip_id), (EventStatus::Accepted, trip));
    let applied = |booking_ref: &str| world.state.invoices.get(&booking_ref.to_owned()).unwrap().credit_applied;
    assert_eq!((applied("BR-9"), applied("BR-1")), (None, Some(Money(2000))));
}

#[test]
fn without_an_invoice_fails_with_booking_not_found_and_changes_nothing() {
    let mut world = World::new();
    let trip = world.booking("BR-1", 10).trip_id;
    let before = world.snapshot();
    for payload in [
        json!({"appliedRupees": 1}),
        json!({"bookingRef": "BR-2", "appliedRupees": 1}),
        // Only the first field that was sent counts: credit is never applied to another booking.
        json!({"bookingRef": "BR-2", "tripId": trip, "appliedRupees": 1}),
        json!({"bookingRef": 1, "tripId": trip, "appliedRupees": 1}),
        json!({"tripId": "nonsense", "appliedRupees": 1}),
    ] {
        let result = apply(&mut world, payload);
        let expected = (EventStatus::Failed, Some("booking_not_found"));
        assert_eq!((result.status, result.error.as_deref()), expected);
        assert_eq!((result.client_id, result.lead_id), (None, None));
    }
    assert_eq!(world.snapshot(), before);
}

#[test]
fn without_a_valid_amount_fails_with_invalid_payload_and_changes_nothing() {
    let mut world = World::new();
    world.booking("BR-1", 10);
    let before = world.snapshot();
    for wrong in [json!(null), json!("1"), json!(-1), json!(1e13), json!({})] {
        let result = apply(&mut world, json!({"bookingRef": "BR-1", "appliedRupees": wrong}));
        assert_eq!((result.status, result.error.as_deref()), (EventStatus::Failed, Some("invalid_payload")));
    }
    assert_eq!(world.snapshot(), before);
}

fn update(world: &mut World, payload: Value) -> EventResult {
    world.send(UPDATED, json!({"email": "ana@example.com", "name": "Ana"}), payload)
}

#[test]
fn the_newest_as_of_wins_compared_as_an_instant() {
    let mut world = World::new();
    let mut available = |paise: i64, as_of: &str| {
        let client = update(&mut world, json!({"availablePaise": paise, "asOf": as_of})).client_id.unwrap();
        world.state.credits.get(&client).unwrap().available_paise
    };
    assert_eq!(available(1, "2026-05-01T12:00:00+02:00"), Some(1));
    assert_eq!(available(2, "2026-05-01T10:00:00Z"), Some(1));
    assert_eq!(available(3, "2026-05-01T11:59:59.999+02:00"), Some(1));
    assert_eq!(available(4, "2026-05-01T06:00:00.001-04:00"), Some(4));
    assert_eq!(available(5, "2026-05-01T10:00:00.0010009Z"), Some(4));
}

#[test]
fn without_a_valid_as_of_nothing_is_updated() {
    let mut world = World::new();
    for payload in [
        json!({"availablePaise": 1}),
        json!({"availablePaise": 1, "asOf": null}),
        json!({"availablePaise": 1, "asOf": "2026-05-01"}),
        json!({"availablePaise": 1, "asOf": "2026-05-01T10:00:00"}),
        json!({"availablePaise": 1, "asOf": 1_777_629_600}),
        json!({"availablePaise": 1, "asOf": "2026-05-02T12:00:00.001Z"}),
        json!({"availablePaise": 1, "asOf": "9999-12-31T23:59:59Z"}),
    ] {
        let result = update(&mut world, payload);
        let expected = (EventStatus::Accepted, &["credit_field_rejected:asOf".into()][..]);
        assert_eq!((result.status, &result.warnings[..]), expected);
    }
    assert!(world.state.credits.values().next().is_none());
    let a_day_ahead = update(&mut world, json!({"availablePaise": 1, "asOf": "2026-05-02T12:00:00Z"}));
    assert!(a_day_ahead.warnings.is_empty() && world.state.credits.values().next().is_some());
}

#[test]
fn other_invalid_fields_are_left_null_with_a_warning() {
    let mut world = World::new();
    let payload = json!({"membershipId": 1, "corporateName": "x".repeat(201), "availablePaise": 1.5,
        "grantedPaise": "1", "redeemablePercent": 50.000_000_000_000_014, "asOf": "2026-05-01T10:00:00Z"});
    let result = update(&mut world, payload);
    let fields = ["membershipId", "corporateName", "availablePaise", "grantedPaise", "redeemablePercent"];
    assert_eq!(result.warnings, fields.map(|field| format!("credit_field_rejected:{field}")));
    let credit = world.state.credits.get(&result.client_id.unwrap()).unwrap();
    assert!(credit.membership_id.is_none() && credit.corporate_name.is_none());
    assert!(credit.available_paise.is_none() && credit.granted_paise.is_none());
    assert!(credit.redeemable_percent.is_none());
}

#[test]
fn an_updated_balance_does_not_change_the_lead() {
    let mut world = World::new();
    let lead = world.send("enquiry.submitted", json!({"email": "ana@example.com"}), json!({})).lead_id.unwrap();
    let version = world.lead(lead).updated_at;
    update(&mut world, json!({"availablePaise": 1, "asOf": "2026-05-01T10:00:00Z"}));
    assert_eq!(world.lead(lead).updated_at, version);
}
