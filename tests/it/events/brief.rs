//! The brief of a lead: stated fields, and fields that cannot be read (D15).

use super::{ana, submit_enquiry, warnings};
use serde_json::{Value, json};
use tests::World;

/// The fields of the brief, as the pipeline shows them.
async fn brief(world: &World, payload: Value) -> [Value; 4] {
    let result = submit_enquiry(world, payload).await;
    assert!(warnings(&result).is_empty(), "{result}");
    let lead = world.lead(&result["leadId"]).await;
    ["destination", "travelDates", "party", "budget"].map(|field| lead[field].clone())
}

fn null_or_all_null(value: &Value) -> bool {
    value.as_object().map_or(value.is_null(), |fields| fields.values().all(Value::is_null))
}

#[tokio::test]
async fn omitted_fields_stay_null() {
    let world = World::shared().await;
    for payload in [
        json!({}),
        json!({"party": null, "travelDates": null, "budget": null, "paxCount": null, "destination": ""}),
    ] {
        for field in brief(&world, payload).await {
            assert!(null_or_all_null(&field), "{field}");
        }
    }
    let unstated = world.accept(ana("enquiry.submitted")).await;
    assert!(null_or_all_null(&world.lead(&unstated["leadId"]).await["party"]));
}

#[tokio::test]
async fn stated_fields_are_shown_as_sent() {
    let world = World::shared().await;
    let party = json!({"adults": 2, "children": 1, "childAges": [7], "rooms": 1});
    let [destination, dates, shown, budget] = brief(
        &world,
        json!({"destination": "Goa, then Kerala", "party": party, "budget": {"amount": 90000.5, "currency": "INR"},
            "travelDates": {"start": "2027-05-01", "end": "2027-05-09"}}),
    )
    .await;
    assert_eq!(destination, "Goa, then Kerala");
    assert_eq!(dates, json!({"startDate": "2027-05-01", "endDate": "2027-05-09"}));
    assert_eq!(shown, party);
    assert_eq!(budget, json!({"amount": 90000.5, "currency": "INR", "notes": null}));
}

#[tokio::test]
async fn accepts_dates_in_both_forms_and_a_single_date() {
    let world = World::shared().await;
    let dates = json!({"startDate": "2027-05-01", "endDate": "2027-05-01"});
    assert_eq!(brief(&world, json!({"travelDates": dates})).await[1], dates);
    let start_only = brief(&world, json!({"travelDates": {"start": "2028-02-29"}})).await[1].clone();
    assert_eq!(start_only, json!({"startDate": "2028-02-29", "endDate": null}));
}

#[tokio::test]
async fn stores_a_pax_count_as_adults_only() {
    let world = World::shared().await;
    let expected = json!({"adults": 4, "children": null, "childAges": null, "rooms": null});
    assert_eq!(brief(&world, json!({"paxCount": 4})).await[2], expected);
}

#[tokio::test]
async fn stores_a_free_text_budget_verbatim_as_notes() {
    let world = World::shared().await;
    for sent in ["about 2 lakh", "  $2,000 – 3,000 per person  "] {
        let [.., budget] = brief(&world, json!({"budget": sent})).await;
        assert_eq!(budget, json!({"amount": null, "currency": null, "notes": sent}));
    }
}

#[tokio::test]
async fn drops_an_unreadable_field_with_a_warning_and_accepts_the_event() {
    let world = World::shared().await;
    let table = [
        ("travelDates", json!({"start": "2027-02-30"})),
        ("travelDates", json!({"start": "2027-05-09", "end": "2027-05-01"})),
        ("travelDates", json!("in May")),
        ("travelDates", json!({"start": 20270501})),
        ("party", json!({"adults": -1})),
        ("party", json!({"adults": "two"})),
        ("party", json!({"adults": 2, "childAges": [-3]})),
        ("party", json!([2, 1])),
        ("paxCount", json!(-2)),
        ("paxCount", json!("2")),
        ("paxCount", json!(2.5)),
        ("budget", json!({"amount": 100})),
        ("budget", json!({"amount": 100, "currency": "RUPEES"})),
        ("budget", json!({"amount": -1, "currency": "INR"})),
        ("budget", json!(100)),
        ("destination", json!(["Goa"])),
        ("destination", json!("x".repeat(501))),
        ("title", json!(5)),
        ("title", json!("x".repeat(201))),
        ("message", json!({"text": "hello"})),
        ("message", json!("x".repeat(10_001))),
        ("guestNationality", json!("XX")),
        ("attribution", json!("google")),
        ("attribution", json!({"source": 5})),
        ("externalLeadId", json!(17)),
        ("externalLeadId", json!("x".repeat(201))),
    ];
    let events: Vec<_> = table
        .iter()
        .map(|(field, value)| ana("enquiry.submitted").payload(json!({ *field: value })))
        .collect();
    let results = world.results(&events).await;
    for ((field, value), result) in table.iter().zip(&results) {
        assert_eq!(result["status"], "accepted", "{field}: {value}");
        assert_eq!(warnings(result), [format!("brief_field_rejected:{field}")], "{field}: {value}");
    }
    for lead in world.pipeline(&[]).await {
        for field in ["destination", "travelDates", "party", "budget", "attribution", "externalId"] {
            assert!(null_or_all_null(&lead[field]), "{field}: {lead}");
        }
    }
}

#[tokio::test]
async fn one_invalid_field_does_not_affect_the_others() {
    let world = World::shared().await;
    let result = submit_enquiry(
        &world,
        json!({"travelDates": {"start": "soon"}, "destination": "Goa", "paxCount": 2}),
    )
    .await;
    assert_eq!(warnings(&result), ["brief_field_rejected:travelDates"]);
    let lead = world.lead(&result["leadId"]).await;
    assert_eq!((&lead["destination"], &lead["party"]["adults"]), (&json!("Goa"), &json!(2)));
}
