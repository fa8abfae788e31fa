//! `booking.started`, `booking.abandoned` and `booking.completed` (specification: States and transitions; D11, D12).

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
    for name in [
        json!({"leadId": named["leadId"]}),
        json!({"tripId": named["tripId"]}),
        json!({"externalLeadId": "x-1"}),
    ] {
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
