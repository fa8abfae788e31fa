//! Leads: opened, shown and changed.

use super::{get, is_version, lead_route, new_client, new_lead, patch, post, record, trip_route};
use serde_json::{Value, json};
use tests::{World, text, words};

fn brief() -> Value {
    json!({
        "title": "Honeymoon", "externalId": "x-1", "destination": "Goa",
        "travelDates": {"startDate": "2028-02-28", "endDate": "2028-02-29"},
        "party": {"adults": 2, "children": 1, "childAges": [0], "rooms": 1},
        "budget": {"amount": 1234.5, "currency": "INR"},
    })
}

#[tokio::test]
async fn opens_a_lead_with_every_field_and_returns_the_same() {
    let world = World::shared().await;
    let lead = new_lead(&world, brief()).await;
    let mut expected = brief();
    for made_up in ["id", "enquiryNumber", "clientId", "tripId", "createdAt", "updatedAt"] {
        expected[made_up] = lead[made_up].clone();
    }
    expected["stage"] = json!("inquiry");
    expected["followUp"] = json!(false);
    expected["owner"] = json!({"email": "asha@acme.test", "name": "Asha"});
    expected["budget"]["notes"] = Value::Null;
    assert_eq!(lead, expected);
    assert!(text(&lead["tripId"]).len() == 36 && is_version(&lead["updatedAt"]), "{lead}");
    assert_eq!(record(&get(&world, &lead_route(&lead)).await, 200), lead);
}

#[tokio::test]
async fn a_lead_of_a_client_given_by_id_creates_no_other_client() {
    let world = World::shared().await;
    let client = new_client(&world, json!({"email": "ana@example.com", "name": "Ana"})).await;
    let body = json!({"clientId": client["id"], "contact": {"email": "bo@example.com", "name": "Bo"}});
    let lead = record(&post(&world, "/leads", body).await, 201);
    assert_eq!(lead["clientId"], client["id"]);
    assert_eq!(record(&get(&world, &super::client_route(&client)).await, 200)["name"], "Ana");
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 1);
    for unknown in ["0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e", "not-an-id"] {
        post(&world, "/leads", json!({"clientId": unknown})).await.assert_error(404, "not_found");
    }
}

#[tokio::test]
async fn a_contact_is_matched_or_created() {
    let world = World::shared().await;
    let client = new_client(&world, json!({"email": "Ana@example.com"})).await;
    let matched = new_lead(&world, json!({"contact": {"email": "ANA@example.com", "phone": "123"}})).await;
    assert_eq!(matched["clientId"], client["id"]);
    let made = new_lead(&world, json!({"contact": {"externalId": "p-2", "name": "Bo"}})).await;
    assert_ne!(made["clientId"], client["id"]);
    assert_eq!(world.client(&made["clientId"]).await["name"], "Bo");
    for nobody in [json!({}), json!({"contact": {}}), json!({"contact": {"name": "Ana"}})] {
        post(&world, "/leads", nobody).await.assert_error(400, "identity_required");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
}

#[tokio::test]
async fn rejects_an_invalid_itinerary_with_every_error() {
    let world = World::shared().await;
    let itinerary = json!({"days": [{"title": "1", "items": [{"note": 1}, 2]}, {"title": "2"}]});
    let contact = json!({"email": "ana@example.com"});
    let response = post(&world, "/leads", json!({"contact": contact, "itinerary": itinerary})).await;
    assert_eq!(
        super::refused_with(&response, 400, "invalid_itinerary", "errors"),
        json!([
            "title: is required",
            "days[0].items[0].title: is required",
            "days[0].items[1]: must be an object",
            "days[1].items: must be an array",
        ])
    );
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 0);
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 0);
}

#[tokio::test]
async fn a_patch_changes_only_title_flag_stage_and_owner() {
    let world = World::shared().await;
    let mut expected = new_lead(&world, brief()).await;
    for (field, sent, shown) in [
        ("title", json!("Anniversary"), json!("Anniversary")),
        ("followUp", json!(true), json!(true)),
        ("followUp", json!(false), json!(false)),
        ("stage", json!("follow_up"), json!("follow_up")),
        ("stage", json!("building_proposal"), json!("building_proposal")),
        ("stage", json!("negotiation"), json!("negotiation")),
        ("stage", json!("inquiry"), json!("inquiry")),
        ("owner", json!("BEN@acme.test"), json!({"email": "ben@acme.test", "name": "Ben"})),
    ] {
        let after = record(&patch(&world, &lead_route(&expected), json!({field: sent})).await, 200);
        assert!(text(&after["updatedAt"]) > text(&expected["updatedAt"]), "{field}");
        expected[field] = shown;
        expected["updatedAt"] = after["updatedAt"].clone();
        assert_eq!(after, expected);
    }
    assert_eq!(record(&get(&world, &lead_route(&expected)).await, 200), expected);
    let trip = record(&get(&world, &trip_route(&expected)).await, 200);
    assert_eq!((&trip["stage"], &trip["owner"]), (&expected["stage"], &expected["owner"]));
}

#[tokio::test]
async fn notifies_a_new_owner_and_rejects_one_who_is_not_an_active_member() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    world.connectctl.json(&words("member add --tenant acme --email cy@acme.test --name Cy")).await;
    world.connectctl.json(&["member", "remove", "--tenant", "acme", "--email", "cy@acme.test"]).await;
    for stranger in ["nobody@acme.test", "cy@acme.test", "ana@example.com"] {
        let response = patch(&world, &lead_route(&lead), json!({"owner": stranger})).await;
        response.assert_error(422, "owner_not_member");
    }
    record(&patch(&world, &lead_route(&lead), json!({"owner": "ben@acme.test"})).await, 200);
    let notifications = world.notifications().await;
    let to: Vec<_> = notifications.iter().map(|one| (text(&one["to"]), text(&one["kind"]))).collect();
    assert_eq!(to, [("asha@acme.test", "lead_assigned"), ("ben@acme.test", "lead_assigned")]);
    assert!(notifications.iter().all(|one| one["leadId"] == lead["id"]), "{notifications:?}");
}

#[tokio::test]
async fn the_trip_of_a_lead_without_one_is_not_open() {
    let world = World::shared().await;
    let lead = new_lead(&world, json!({})).await;
    without_trip(&world).await;
    get(&world, &trip_route(&lead)).await.assert_error(409, "trip_not_open");
    patch(&world, &trip_route(&lead), json!({"title": "x"})).await.assert_error(409, "trip_not_open");
    assert_eq!(record(&get(&world, &lead_route(&lead)).await, 200).get("tripId"), None);
}

/// Deletes the trip: the records API opens every lead with one.
async fn without_trip(world: &World) {
    world.database.execute("DELETE FROM itineraries; DELETE FROM proposals; DELETE FROM trips").await;
}
