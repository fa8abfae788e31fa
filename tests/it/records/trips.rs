//! Trips: shown, and changed by the customer (specification: GET and PATCH /leads/{leadId}/trip; D20, D21b).

use super::{get, joined_with_lead, lead_route, new_lead, patch, record, refused_with, trip_route};
use serde_json::{Value, json};
use tests::{World, text};

fn itinerary(title: &str) -> Value {
    json!({"title": title, "days": [{"title": "Day 1", "items": [{"title": "Beach", "at": 9.50}]}]})
}

async fn stored(world: &World) -> Vec<Value> {
    let rows = world.database.rows("SELECT snapshot FROM itineraries", &[]).await;
    rows.into_iter().map(|row| row["snapshot"].clone()).collect()
}

/// Checks whether the response to a PATCH says that its itinerary was applied.
#[track_caller]
fn assert_applied(trip: &Value, reason: Option<&str>) {
    assert_eq!(trip["itineraryApplied"], json!(reason.is_none()), "{trip}");
    assert_eq!(trip.get("itineraryNotAppliedReason").and_then(Value::as_str), reason, "{trip}");
}

#[tokio::test]
async fn a_trip_shows_brief_stage_owner_and_draft_proposal() {
    let world = World::shared().await;
    let lead = new_lead(
        &world,
        json!({
            "title": "Honeymoon", "destination": "Goa",
            "travelDates": {"startDate": "2028-02-28", "endDate": "2028-02-29"},
            "party": {"adults": 2, "children": 0, "childAges": [], "rooms": 1},
            "budget": {"amount": 1000, "currency": "INR"}, "guestNationality": "IN",
        }),
    )
    .await;
    let trip = record(&get(&world, &trip_route(&lead)).await, 200);
    let mut expected = json!({
        "id": lead["tripId"], "leadId": lead["id"], "guestNationality": "IN",
        "proposal": {"status": "draft", "sentAt": null},
        "createdAt": trip["createdAt"], "updatedAt": trip["updatedAt"],
    });
    for shared in ["enquiryNumber", "title", "stage", "destination", "travelDates", "party", "budget", "owner"] {
        expected[shared] = lead[shared].clone();
    }
    assert_eq!(trip, expected);
}

#[tokio::test]
async fn each_field_of_the_brief_can_be_changed_alone_and_shows_on_the_lead() {
    let world = World::shared().await;
    let mut lead = new_lead(&world, json!({"guestNationality": "IN"})).await;
    let mut expected = record(&get(&world, &trip_route(&lead)).await, 200);
    for (field, sent, shown) in [
        ("destination", json!("Goa"), json!("Goa")),
        ("travelDates", json!({"startDate": "2027-05-01"}), json!({"startDate": "2027-05-01", "endDate": null})),
        (
            "party",
            json!({"adults": 4, "childAges": [3]}),
            json!({"adults": 4, "children": null, "childAges": [3], "rooms": null}),
        ),
        (
            "budget",
            json!({"amount": 10.5, "currency": "EUR"}),
            json!({"amount": 10.5, "currency": "EUR", "notes": null}),
        ),
        // The stated budget is replaced as a whole.
        ("budget", json!({"notes": "modest"}), json!({"amount": null, "currency": null, "notes": "modest"})),
    ] {
        let after = record(&patch(&world, &trip_route(&lead), json!({field: sent})).await, 200);
        assert!(text(&after["updatedAt"]) > text(&expected["updatedAt"]), "{field}");
        expected[field] = shown.clone();
        expected["updatedAt"] = after["updatedAt"].clone();
        assert_eq!(after, expected);
        let shows = record(&get(&world, &lead_route(&lead)).await, 200);
        assert_eq!(shows[field], shown);
        assert!(text(&shows["updatedAt"]) > text(&lead["updatedAt"]), "{field}");
        lead = shows;
    }
    for (sent, shown) in [("", Value::Null), ("PT", json!("PT"))] {
        let after = patch(&world, &trip_route(&lead), json!({"guestNationality": sent})).await;
        assert_eq!(record(&after, 200)["guestNationality"], shown);
    }
    let titled = record(&patch(&world, &trip_route(&lead), json!({"title": "New"})).await, 200);
    assert_eq!(titled["title"], "New");
    assert_eq!(record(&get(&world, &trip_route(&lead)).await, 200), titled);
}

#[tokio::test]
async fn posts_changes_with_old_and_new_values_and_notifies_the_owner() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({"destination": "Goa", "message": "Hello"})).await;
    let body = json!({
        "destination": "Kerala", "title": "South", "travelDates": {"startDate": "2027-05-01"},
        "changeSummary": "Further south",
        "message": "We'd rather\ngo south.",
    });
    record(&patch(&world, &trip_route(&lead), body).await, 200);
    let inbox = world.inbox(&lead["id"]).await;
    let posted: Vec<_> = inbox.iter().map(|one| json!([one["kind"], one["text"], one["changes"]])).collect();
    let dates = json!({"travelDates": {"from": null, "to": {"startDate": "2027-05-01", "endDate": null}}});
    let changes = json!({
        "destination": {"from": "Goa", "to": "Kerala"}, "title": {"from": "Trip to Goa", "to": "South"},
    });
    let expected = [
        json!(["message", "Hello", null]),
        json!(["correction", "Further south", dates]),
        json!(["change", "Further south", changes]),
        json!(["message", "We'd rather\ngo south.", null]),
    ];
    assert_eq!(posted, expected);
    let notifications = world.notifications().await;
    let last = notifications.last().expect("a notification");
    assert_eq!(notifications.len(), 2, "{notifications:?}");
    let expected = (&json!("trip_changed"), &json!("asha@acme.test"), &lead["id"]);
    assert_eq!((&last["kind"], &last["to"], &last["leadId"]), expected);
}

#[tokio::test]
async fn an_itinerary_replaces_the_draft_in_early_stages() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({"itinerary": itinerary("First")})).await;
    assert_eq!(stored(&world).await, [itinerary("First")]);
    let second = patch(&world, &trip_route(&lead), json!({"itinerary": itinerary("Second")})).await;
    assert_applied(&record(&second, 200), None);
    assert_eq!(stored(&world).await, [itinerary("Second")]);
    record(&patch(&world, &lead_route(&lead), json!({"stage": "follow_up"})).await, 200);
    let third = patch(&world, &trip_route(&lead), json!({"itinerary": itinerary("Third")})).await;
    assert_applied(&record(&third, 200), None);
    assert_eq!(stored(&world).await, [itinerary("Third")]);
    let shown = record(&get(&world, &trip_route(&lead)).await, 200);
    assert_eq!(shown.get("itineraryApplied"), None, "only the response to the PATCH says so");
}

#[tokio::test]
async fn stores_an_itinerary_byte_for_byte() {
    let (world, lead) = joined_with_lead().await;
    let sent = r#"{"title":"A","days":[{"title":"1","items":[{"z":1.50,"title":"x","a":null}]}]}"#;
    let body = format!(r#"{{"itinerary":{sent}}}"#);
    let request = world.key.records("PATCH", &super::records_target(&trip_route(&lead)), body);
    assert_applied(&record(&world.http().send(&request).await, 200), None);
    let rows = world.database.rows("SELECT snapshot::text AS text FROM itineraries", &[]).await;
    assert_eq!(rows, [json!({"text": sent})]);
}

#[tokio::test]
async fn rejects_changes_of_a_closed_trip_and_names_its_stage() {
    let (world, lead) = joined_with_lead().await;
    record(&patch(&world, &lead_route(&lead), json!({"stage": "lost", "reason": "too dear"})).await, 200);
    let refused = async |stage: &str| {
        let before = record(&get(&world, &trip_route(&lead)).await, 200);
        assert_eq!(before["stage"], stage);
        let response = patch(&world, &trip_route(&lead), json!({"title": "New", "message": "Hello"})).await;
        assert_eq!(refused_with(&response, 409, "trip_closed", "stage"), stage);
        assert_eq!(record(&get(&world, &trip_route(&lead)).await, 200), before);
    };
    refused("lost").await;
    for stage in ["archived", "trip_booked", "travelled"] {
        world.database.execute(&format!("UPDATE leads SET stage = '{stage}'")).await;
        refused(stage).await;
    }
    assert!(world.inbox(&lead["id"]).await.is_empty());
}

#[tokio::test]
async fn an_itinerary_that_cannot_be_stored_does_not_block_other_fields() {
    let world = World::start().await;
    let lead = new_lead(&world, json!({})).await;
    super::break_inserts(&world, "itineraries").await;
    let body = json!({"destination": "Goa", "message": "Hello", "itinerary": itinerary("New")});
    let trip = record(&patch(&world, &trip_route(&lead), body).await, 200);
    assert_applied(&trip, Some("update_failed"));
    assert_eq!(trip["destination"], "Goa");
    assert_eq!(world.inbox(&lead["id"]).await.len(), 2);
    super::restore_inserts(&world).await;
    let again = patch(&world, &trip_route(&lead), json!({"itinerary": itinerary("New")})).await;
    assert_applied(&record(&again, 200), None);
    assert_eq!(stored(&world).await, [itinerary("New")]);
}
