//! Clients: made, shown and changed.

use super::{client_route, data, get, is_version, new_client, patch, post, record, refused_with};
use serde_json::{Value, json};
use tests::{World, event, text};

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
    let after =
        record(&patch(&world, &client_route(&before), json!({"travelers": [{"name": "Ed"}]})).await, 200);
    assert_eq!(
        after["travelers"],
        json!([{"name": "Ed", "type": "adult", "age": null, "email": null, "phone": null}])
    );
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
