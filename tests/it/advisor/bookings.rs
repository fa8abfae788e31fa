//! Bookings: confirmed and cancelled (D12, D25).

use super::{action, ask, done, emitted, lead, opened, opened_without_trip, subscribe, types};
use serde_json::{Value, json};
use tests::{World, event, text};

fn booking(of: &Value, booking_ref: &str) -> Value {
    json!({"lead": of["leadId"], "bookingRef": booking_ref, "amount": "1234.50", "currency": "INR", "creditUsed": 200})
}

/// The bookings that are cancelled.
async fn cancelled(world: &World) -> Vec<Value> {
    let query = "SELECT booking_ref FROM invoices WHERE cancelled_at IS NOT NULL ORDER BY booking_ref";
    world.database.rows(query, &[]).await.iter().map(|row| row["booking_ref"].clone()).collect()
}

#[tokio::test]
async fn a_booking_makes_the_invoice_and_books_the_enquiry() {
    let world = World::start().await;
    let of = opened(&world).await;
    let answer = done(&world, "booking-confirm", booking(&of, " BR-1 ")).await;
    assert_eq!((&answer["bookingRef"], &answer["stage"]), (&json!("BR-1"), &json!("trip_booked")));
    assert_eq!(lead(&world, &of).await["stage"], "trip_booked");
    let expected = json!({
        "bookingRef": "BR-1", "amount": 1234.5, "currency": "INR", "creditUsed": 200, "creditApplied": null,
        "creditState": "pending", "balanceDue": 0,
    });
    assert_eq!(world.invoices(&of["leadId"]).await, [expected]);
}

#[tokio::test]
async fn the_credit_of_a_booking_is_settled_by_the_event_that_answers_it() {
    let world = World::start().await;
    let of = opened(&world).await;
    done(&world, "booking-confirm", booking(&of, "BR-1")).await;
    let applied = json!({"bookingRef": "BR-1", "requestedRupees": 200, "appliedRupees": 150});
    world.accept(event("booking.credit_applied").email("ana@example.com").payload(applied)).await;
    let [invoice] = &world.invoices(&of["leadId"]).await[..] else { panic!("one invoice") };
    assert_eq!((&invoice["creditState"], &invoice["balanceDue"]), (&json!("confirmed"), &json!(50)));
}

#[tokio::test]
async fn a_booking_is_confirmed_once_and_never_takes_the_enquiry_back() {
    let world = World::start().await;
    subscribe(&world).await;
    let of = opened(&world).await;
    done(&world, "booking-confirm", booking(&of, "BR-1")).await;
    done(&world, "travelled", json!({"lead": of["leadId"]})).await;
    emitted(&world).await;
    let before = world.invoices(&of["leadId"]).await;
    let mut other = booking(&of, "BR-1");
    other["amount"] = json!(1);
    assert_eq!(done(&world, "booking-confirm", other).await["stage"], "travelled");
    assert_eq!(world.invoices(&of["leadId"]).await, before);
    assert!(emitted(&world).await.is_empty());
}

#[tokio::test]
async fn a_booking_that_an_event_made_is_the_same_booking() {
    let world = World::start().await;
    subscribe(&world).await;
    let of = opened(&world).await;
    let completed = event("booking.completed").email("ana@example.com");
    world.accept(completed.payload(json!({"bookingRef": "BR-1", "amount": 5, "currency": "INR"}))).await;
    emitted(&world).await;
    done(&world, "booking-confirm", booking(&of, "BR-1")).await;
    assert!(emitted(&world).await.is_empty());
    assert_eq!(world.invoices(&of["leadId"]).await[0]["amount"], 5);
    done(&world, "booking-cancel", json!({"bookingRef": "BR-1", "reason": "illness"})).await;
    assert_eq!(types(&emitted(&world).await), ["booking.cancelled"]);
    assert_eq!(cancelled(&world).await, ["BR-1"]);
}

#[tokio::test]
async fn one_enquiry_can_have_several_bookings_and_needs_no_trip() {
    let world = World::start().await;
    let of = opened_without_trip(&world).await;
    for booking_ref in ["BR-1", "BR-2"] {
        done(&world, "booking-confirm", json!({"lead": of["leadId"], "bookingRef": booking_ref})).await;
    }
    let invoices = world.invoices(&of["leadId"]).await;
    let shown: Vec<_> = invoices.iter().map(|one| (text(&one["bookingRef"]), &one["amount"])).collect();
    assert_eq!(shown, [("BR-1", &json!(null)), ("BR-2", &json!(null))]);
}

#[tokio::test]
async fn a_booking_is_cancelled_once_and_the_enquirys_stage_stays() {
    let world = World::start().await;
    subscribe(&world).await;
    let of = opened(&world).await;
    for booking_ref in ["BR-1", "BR-2"] {
        done(&world, "booking-confirm", booking(&of, booking_ref)).await;
    }
    emitted(&world).await;
    let before = lead(&world, &of).await;
    for reason in ["illness", "another one"] {
        let answer = done(&world, "booking-cancel", json!({"bookingRef": "BR-1", "reason": reason})).await;
        assert_eq!((&answer["leadId"], &answer["stage"]), (&of["leadId"], &json!("trip_booked")));
    }
    assert_eq!(lead(&world, &of).await, before);
    assert_eq!(cancelled(&world).await, ["BR-1"]);
    let told = emitted(&world).await;
    assert_eq!(types(&told), ["booking.cancelled"]);
    assert_eq!(told[0]["envelope"]["payload"]["reason"], "illness");
}

#[tokio::test]
async fn two_who_take_one_reference_at_once_leave_one_booking() {
    let world = World::with().workers(2).start().await;
    subscribe(&world).await;
    let (one, other) = (opened(&world).await, opened(&world).await);
    for round in 0..5 {
        let booking_ref = format!("BR-{round}");
        let bodies = [&one, &other].map(|of| action("booking-confirm", booking(of, &booking_ref)));
        let answers = futures_util::join!(ask(&world, &bodies[0]), ask(&world, &bodies[1]));
        let answers = [answers.0, answers.1];
        let ok = answers.iter().filter(|answer| answer["ok"] == true).count();
        let conflict = answers.iter().filter(|answer| answer["code"] == "booking_ref_conflict").count();
        assert_eq!((ok, conflict), (1, 1), "{answers:?}");
    }
    let confirmed = emitted(&world).await;
    assert_eq!(types(&confirmed).iter().filter(|one| **one == "booking.confirmed").count(), 5);
    assert_eq!(world.database.count("SELECT count(*) FROM invoices").await, 5);
}
