//! `booking.started`, `booking.abandoned` and `booking.completed` (specification: States and transitions; D11, D12),
//! and the events of credit, `booking.credit_applied` and `employee.credit_updated` (D15b).

use super::{ana, ids, set_stage, submit_enquiry, warnings};
use serde_json::{Value, json};
use tests::{World, event};

async fn stage(world: &World, lead: &Value) -> Value {
    world.lead(lead).await["stage"].clone()
}

#[tokio::test]
async fn completed_prefers_the_open_lead_and_otherwise_takes_the_newest() {
    let world = World::shared().await;
    let [oldest, open, lost] = [
        submit_enquiry(&world, json!({})).await,
        submit_enquiry(&world, json!({})).await,
        submit_enquiry(&world, json!({})).await,
    ];
    set_stage(&world, &oldest["leadId"], "archived").await;
    set_stage(&world, &lost["leadId"], "lost").await;
    assert_eq!(world.accept(ana("booking.completed")).await["leadId"], open["leadId"]);
    assert_eq!(stage(&world, &lost["leadId"]).await, "lost");
    assert_eq!(world.accept(ana("booking.completed")).await["leadId"], lost["leadId"]);
    assert_eq!(stage(&world, &lost["leadId"]).await, "trip_booked");
    assert_eq!(stage(&world, &oldest["leadId"]).await, "archived");
}

#[tokio::test]
async fn a_booking_may_reference_its_lead_in_three_ways() {
    let world = World::shared().await;
    let named = submit_enquiry(&world, json!({"externalLeadId": "x-1"})).await;
    submit_enquiry(&world, json!({})).await;
    for name in
        [json!({"leadId": named["leadId"]}), json!({"tripId": named["tripId"]}), json!({"externalLeadId": "x-1"})]
    {
        set_stage(&world, &named["leadId"], "inquiry").await;
        let result = world.accept(ana("booking.started").payload(name.clone())).await;
        assert_eq!((ids(&result), warnings(&result)), (ids(&named), vec![]), "{name}");
        assert_eq!(stage(&world, &named["leadId"]).await, "proposal_approved", "{name}");
    }
}

#[tokio::test]
async fn a_shared_external_id_finds_the_newest_lead_of_the_client() {
    let world = World::shared().await;
    let people = ["ana@example.com", "bo@example.com", "cy@example.com"];
    let name = json!({"externalLeadId": "shared"});
    let mut newest = Vec::new();
    // Fewer leads, as many and more than are loaded by the external id alone.
    for _ in 0..6 {
        newest.clear();
        for email in people {
            let enquiry = event("enquiry.submitted").email(email).payload(name.clone());
            newest.push(world.accept(enquiry).await);
        }
        for (email, expected) in people.into_iter().zip(&newest) {
            // A newer lead without the id is not meant.
            world.accept(event("enquiry.submitted").email(email)).await;
            let result = world.accept(event("booking.abandoned").email(email).payload(name.clone())).await;
            assert_eq!((ids(&result), warnings(&result)), (ids(expected), vec![]), "{email}");
        }
        let stranger = event("booking.abandoned").email("dee@example.com").payload(name.clone());
        assert_eq!(warnings(&world.accept(stranger).await), ["enquiry_not_found"]);
    }
}

#[tokio::test]
async fn a_lead_of_another_client_gets_a_warning_and_is_not_changed() {
    let world = World::shared().await;
    let own = submit_enquiry(&world, json!({})).await;
    let other = world
        .accept(event("enquiry.submitted").email("bo@example.com").payload(json!({"externalLeadId": "b-1"})))
        .await;
    let zeta = world.add_tenant("zeta").await;
    let body = tests::event::batch(&[ana("enquiry.submitted").tenant("zeta")]);
    let elsewhere = world.http().send(&zeta.events(body)).await.json()["results"][0].clone();
    let before = world.pipeline(&[]).await;
    for kind in ["booking.started", "booking.abandoned", "booking.completed"] {
        for name in [
            json!({"leadId": other["leadId"]}),
            json!({"tripId": other["tripId"]}),
            json!({"externalLeadId": "b-1"}),
            json!({"leadId": elsewhere["leadId"]}),
            json!({"tripId": elsewhere["tripId"]}),
            json!({"leadId": "no such id"}),
            json!({"leadId": "0190a5b2-0000-7000-8000-000000000001"}),
            json!({"leadId": 7, "tripId": own["tripId"]}),
            json!({"externalLeadId": ["b-1"], "bookingRef": "BR-1"}),
        ] {
            let result = world.accept(ana(kind).payload(name.clone())).await;
            assert_eq!(warnings(&result), ["enquiry_not_found"], "{kind} {name}");
            assert_eq!(ids(&result), [own["clientId"].clone(), json!(null), json!(null)], "{kind} {name}");
        }
    }
    assert_eq!(world.pipeline(&[]).await, before);
    assert_eq!(world.database.count("SELECT count(*) FROM invoices").await, 0);
}

/// Books a lead of Ana's as `BR-1` with a credit of 500 counted as paid; returns the result.
async fn booked(world: &World) -> Value {
    submit_enquiry(world, json!({})).await;
    let payload = json!({"bookingRef": "BR-1", "amount": 2000, "currency": "INR", "creditUsed": 500});
    world.accept(ana("booking.completed").payload(payload)).await
}

fn applied(payload: Value) -> tests::Event {
    ana("booking.credit_applied").payload(payload)
}

async fn invoice(world: &World, lead: &Value) -> Value {
    let mut invoices = world.invoices(lead).await;
    assert_eq!(invoices.len(), 1);
    invoices.remove(0)
}

async fn credit(world: &World, lead: &Value) -> Value {
    world.lead(lead).await["credit"].clone()
}

fn balance(as_of: &str, paise: i64) -> Value {
    json!({"membershipId": "m-1", "corporateName": "Example Ltd", "availablePaise": paise, "grantedPaise": 900_000,
        "redeemablePercent": 50, "asOf": as_of})
}

#[tokio::test]
async fn partly_applied_credit_reopens_the_difference_and_notifies_the_owner() {
    let world = World::shared().await;
    let booked = booked(&world).await;
    world.accept(applied(json!({"tripId": booked["tripId"], "appliedRupees": 125.25, "reason": "expired"}))).await;
    let invoice = invoice(&world, &booked["leadId"]).await;
    assert_eq!((&invoice["creditState"], &invoice["creditApplied"]), (&json!("confirmed"), &json!(125.25)));
    assert_eq!(invoice["balanceDue"], 374.75);
    let told = world.notifications().await;
    let last = told.last().expect("a notification");
    assert_eq!(last["to"], world.lead(&booked["leadId"]).await["owner"]["email"]);
    assert_eq!(last["leadId"], booked["leadId"]);
    assert_ne!(last["kind"], "lead_assigned");
}

#[tokio::test]
async fn credit_without_an_invoice_fails_and_can_be_resent() {
    let world = World::shared().await;
    submit_enquiry(&world, json!({})).await;
    let zeta = world.add_tenant("zeta").await;
    let body =
        [ana("enquiry.submitted"), ana("booking.completed").payload(json!({"bookingRef": "Z-1", "creditUsed": 5}))];
    let body = tests::event::batch(&body.map(|event| event.tenant("zeta")));
    assert_eq!(world.http().send(&zeta.events(body)).await.json()["accepted"], 2);
    let event = applied(json!({"bookingRef": "BR-1", "appliedRupees": 500})).id("c-1");
    for failing in [
        event.clone(),
        applied(json!({"bookingRef": "Z-1", "appliedRupees": 5})),
        applied(json!({})),
        ana("booking.credit_applied"),
    ] {
        let result = world.result(failing).await;
        assert_eq!((&result["status"], &result["error"]), (&json!("failed"), &json!("booking_not_found")));
    }
    world.accept(ana("booking.completed").payload(json!({"bookingRef": "BR-1", "creditUsed": 500}))).await;
    world.accept(event).await;
}

#[tokio::test]
async fn a_balance_is_shown_on_open_leads_and_opens_none() {
    let world = World::shared().await;
    let result = world.accept(ana("employee.credit_updated").payload(balance("2026-05-01T10:00:00Z", 100))).await;
    assert_eq!(ids(&result)[1..], [json!(null), json!(null)]);
    assert!(world.pipeline(&[]).await.is_empty());
    let opened = submit_enquiry(&world, json!({})).await;
    let shown = credit(&world, &opened["leadId"]).await;
    assert_eq!((&shown["membershipId"], &shown["corporateName"]), (&json!("m-1"), &json!("Example Ltd")));
    assert_eq!((&shown["availablePaise"], &shown["grantedPaise"]), (&json!(100), &json!(900_000)));
    assert_eq!(shown["redeemablePercent"].as_f64(), Some(50.0));
    assert_eq!(shown["asOf"], "2026-05-01T10:00:00.000Z");
    set_stage(&world, &opened["leadId"], "lost").await;
    assert_eq!(credit(&world, &opened["leadId"]).await, json!(null), "only open ones show it");
}

#[tokio::test]
async fn credit_events_require_their_scope_and_fail_alone() {
    let world = World::shared().await;
    let booked = booked(&world).await;
    let key = world.add_key("events:ingest").await;
    let events = [
        applied(json!({"bookingRef": "BR-1", "appliedRupees": 500})).id("c-1"),
        ana("contact.identified").name("Ana"),
        ana("employee.credit_updated").payload(balance("2026-05-01T10:00:00Z", 100)).id("c-2"),
    ];
    let response = world.http().send(&key.events(tests::event::batch(&events))).await.json();
    assert_eq!((&response["accepted"], &response["failed"]), (&json!(1), &json!(2)));
    for place in [0, 2] {
        assert_eq!(response["results"][place]["error"], "insufficient_scope");
    }
    assert_eq!(invoice(&world, &booked["leadId"]).await["creditState"], "pending");
    // Failed events are not remembered: with the scope the same ids are applied.
    let again = world.results(&events).await;
    let statuses: Vec<_> = again.iter().map(|result| tests::text(&result["status"])).collect();
    assert_eq!(statuses, ["accepted", "duplicate", "accepted"]);
}
