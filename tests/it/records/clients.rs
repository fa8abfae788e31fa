//! Clients and leads: made, shown and changed.

use super::{
    client_route, data, get, is_version, joined_with_lead, lead_route, new_client, new_lead, patch, post, record,
    refused_with, trip_route,
};
use serde_json::{Value, json};
use tests::{World, event, text, words};

fn full() -> Value {
    json!({
        "name": "Ana Silva", "email": "Ana@Example.com", "phone": "+91 98 765", "company": "Silva & Co",
        "externalId": "p-1", "marketingOptIn": true,
        "travelers": [
            {"name": "Bo", "type": "child", "age": 7, "email": "bo@example.com", "phone": "12 34"},
            {"name": "Cy", "type": "infant"},
            {"name": "Di"},
        ],
    })
}

#[tokio::test]
async fn creates_a_client_with_every_field_and_returns_the_same() {
    let world = World::shared().await;
    let made = post(&world, "/clients", full()).await;
    let client = record(&made, 201);
    let mut expected = full();
    expected["id"] = client["id"].clone();
    expected["clientType"] = json!("individual");
    expected["createdAt"] = client["createdAt"].clone();
    expected["updatedAt"] = client["updatedAt"].clone();
    expected["travelers"] = json!([
        {"name": "Bo", "type": "child", "age": 7, "email": "bo@example.com", "phone": "12 34"},
        {"name": "Cy", "type": "infant", "age": null, "email": null, "phone": null},
        {"name": "Di", "type": "adult", "age": null, "email": null, "phone": null},
    ]);
    assert_eq!(client, expected);
    assert!(is_version(&client["createdAt"]) && is_version(&client["updatedAt"]), "{client}");
    assert_eq!(made.header("idempotent-replayed"), "");
    assert_eq!(record(&get(&world, &client_route(&client)).await, 200), client);
}

#[tokio::test]
async fn a_patch_changes_only_its_fields_and_replaces_the_whole_roster() {
    let world = World::shared().await;
    let before = new_client(&world, full()).await;
    let mut expected = before.clone();
    for (field, value) in [
        ("name", json!("Ana S")),
        ("email", json!("ana2@example.com")),
        ("phone", json!("111")),
        ("company", json!("Other")),
        ("externalId", json!("p-2")),
        ("marketingOptIn", json!(false)),
    ] {
        let after = record(&patch(&world, &client_route(&before), json!({field: value})).await, 200);
        assert!(text(&after["updatedAt"]) > text(&expected["updatedAt"]), "{field}");
        expected[field] = value;
        expected["updatedAt"] = after["updatedAt"].clone();
        assert_eq!(after, expected);
    }
    let after = record(&patch(&world, &client_route(&before), json!({"travelers": [{"name": "Ed"}]})).await, 200);
    let wanted = json!([{"name": "Ed", "type": "adult", "age": null, "email": null, "phone": null}]);
    assert_eq!(after["travelers"], wanted);
    assert!(text(&after["updatedAt"]) > text(&expected["updatedAt"]));
    let none = record(&patch(&world, &client_route(&before), json!({"travelers": []})).await, 200);
    assert_eq!(none["travelers"], json!([]));
    assert_eq!(record(&get(&world, &client_route(&before)).await, 200), none);
}

#[tokio::test]
async fn rejects_a_known_identity_and_names_its_client() {
    let world = World::shared().await;
    let ana = new_client(&world, full()).await;
    let bo = world.accept(event("contact.identified").external_id("p-9").phone("777")).await;
    for (body, id) in [
        (json!({"email": " ANA@example.COM "}), &ana["id"]),
        // The email decides, whatever else is sent.
        (json!({"email": "ana@example.com", "externalId": "p-new"}), &ana["id"]),
        (json!({"externalId": "p-1"}), &ana["id"]),
        (json!({"phone": "(91) 98765"}), &ana["id"]),
        (json!({"externalId": "p-9"}), &bo["clientId"]),
        (json!({"phone": "7-7-7"}), &bo["clientId"]),
    ] {
        let response = post(&world, "/clients", body).await;
        assert_eq!(refused_with(&response, 409, "client_exists", "clientId"), *id);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM clients").await, 2);
}

#[tokio::test]
async fn rejects_an_identity_held_by_another_client() {
    let world = World::shared().await;
    let ana = new_client(&world, full()).await;
    let taken = post(&world, "/clients", json!({"email": "new@example.com", "externalId": "p-1"})).await;
    assert_eq!(refused_with(&taken, 409, "identity_taken", "clientId"), ana["id"]);
    let bo = new_client(&world, json!({"email": "bo@example.com", "externalId": "p-2"})).await;
    for body in [json!({"email": "ANA@EXAMPLE.com"}), json!({"externalId": "p-1", "name": "No"})] {
        let response = patch(&world, &client_route(&bo), body).await;
        assert_eq!(refused_with(&response, 409, "identity_taken", "clientId"), ana["id"]);
    }
    assert_eq!(data(&get(&world, &client_route(&bo)).await, 200), bo);
    // Its own in another spelling is no conflict; nor is a phone.
    let own = json!({"email": "BO@example.com", "externalId": "p-2", "phone": ana["phone"]});
    assert_eq!(record(&patch(&world, &client_route(&bo), own).await, 200)["email"], "BO@example.com");
}

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
    let expected = json!([
        "title: is required", "days[0].items[0].title: is required", "days[0].items[1]: must be an object",
        "days[1].items: must be an array",
    ]);
    assert_eq!(super::refused_with(&response, 400, "invalid_itinerary", "errors"), expected);
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
    let (world, lead) = joined_with_lead().await;
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
    let (world, lead) = joined_with_lead().await;
    without_trip(&world).await;
    get(&world, &trip_route(&lead)).await.assert_error(409, "trip_not_open");
    patch(&world, &trip_route(&lead), json!({"title": "x"})).await.assert_error(409, "trip_not_open");
    assert_eq!(record(&get(&world, &lead_route(&lead)).await, 200).get("tripId"), None);
}

/// Deletes the trip: the records API opens every lead with one.
async fn without_trip(world: &World) {
    world.database.execute("DELETE FROM itineraries; DELETE FROM proposals; DELETE FROM trips").await;
}
