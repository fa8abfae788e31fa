//! Bookings: confirmed and cancelled (D12, D25).

use super::{act, action, event_types, lead, open_lead, send_action, take_emitted};
use serde_json::{Value, json};
use tests::{UNREACHED_RECEIVER, World};

fn booking(opened: &Value, booking_ref: &str) -> Value {
    json!({"lead": opened["leadId"], "bookingRef": booking_ref, "amount": "1234.50", "currency": "INR", "creditUsed": 200})
}

async fn cancelled(world: &World) -> Vec<Value> {
    let query = "SELECT booking_ref FROM invoices WHERE cancelled_at IS NOT NULL ORDER BY booking_ref";
    world.database.rows(query, &[]).await.iter().map(|row| row["booking_ref"].clone()).collect()
}

#[tokio::test]
async fn a_booking_books_the_lead_and_is_cancelled_once_while_the_stage_stays() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let opened = open_lead(&world).await;
    let reply = act(&world, "booking-confirm", booking(&opened, " BR-1 ")).await;
    assert_eq!((&reply["bookingRef"], &reply["stage"]), (&json!("BR-1"), &json!("trip_booked")));
    act(&world, "booking-confirm", booking(&opened, "BR-2")).await;
    let expected = json!({
        "bookingRef": "BR-1", "amount": 1234.5, "currency": "INR", "creditUsed": 200, "creditApplied": null,
        "creditState": "pending", "balanceDue": 0,
    });
    assert!(world.invoices(&opened["leadId"]).await.contains(&expected));
    take_emitted(&world).await;
    let before = lead(&world, &opened).await;
    for reason in ["illness", "another one"] {
        let reply = act(&world, "booking-cancel", json!({"bookingRef": "BR-1", "reason": reason})).await;
        assert_eq!((&reply["leadId"], &reply["stage"]), (&opened["leadId"], &json!("trip_booked")));
    }
    assert_eq!(lead(&world, &opened).await, before);
    assert_eq!(cancelled(&world).await, ["BR-1"]);
    let told = take_emitted(&world).await;
    assert_eq!(event_types(&told), ["booking.cancelled"]);
    assert_eq!(told[0]["envelope"]["payload"]["reason"], "illness");
}

#[tokio::test]
async fn concurrent_confirmations_of_one_reference_create_one_booking() {
    let world = World::shared().await;
    world.subscribe(UNREACHED_RECEIVER).await;
    let (one, other) = (open_lead(&world).await, open_lead(&world).await);
    for round in 0..5 {
        let booking_ref = format!("BR-{round}");
        let bodies = [&one, &other].map(|opened| action("booking-confirm", booking(opened, &booking_ref)));
        let replies = futures_util::join!(send_action(&world, &bodies[0]), send_action(&world, &bodies[1]));
        let replies = [replies.0, replies.1];
        let ok = replies.iter().filter(|reply| reply["ok"] == true).count();
        let conflict = replies.iter().filter(|reply| reply["code"] == "booking_ref_conflict").count();
        assert_eq!((ok, conflict), (1, 1), "{replies:?}");
    }
    let confirmed = take_emitted(&world).await;
    assert_eq!(event_types(&confirmed).iter().filter(|one| **one == "booking.confirmed").count(), 5);
    assert_eq!(world.database.count("SELECT count(*) FROM invoices").await, 5);
}
