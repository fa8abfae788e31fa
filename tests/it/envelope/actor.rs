//! What an event's `actor` may be.

use super::ana;
use serde_json::{Value, json};
use tests::{World, event, text};

#[tokio::test]
async fn accepts_the_longest_values_counted_in_characters() {
    let world = World::shared().await;
    // A local part has at most 64 characters, a domain name 253, each of its labels 63.
    let domain = [63, 63, 63, 61].map(|length| "b".repeat(length)).join(".");
    let email = format!("{}@{domain}", "a".repeat(64));
    let name = "é".repeat(200);
    let external_id = "🧳".repeat(200);
    let phone = format!("{}{}", "(".repeat(20), "1".repeat(20));
    let longest = event("contact.identified")
        .id(&"é".repeat(100))
        .with("origin", json!("ö".repeat(100)))
        .email(&email)
        .phone(&phone)
        .external_id(&external_id)
        .name(&name);
    let result = world.accept(longest).await;
    assert_eq!(text(&result["eventId"]).chars().count(), 100);
    let client = world.client(&result["clientId"]).await;
    assert_eq!((text(&client["email"]), text(&client["name"])), (email.as_str(), name.as_str()));
    assert_eq!(
        (text(&client["external_id"]), text(&client["phone"])),
        (external_id.as_str(), phone.as_str())
    );
}

#[tokio::test]
async fn treats_null_and_empty_optional_fields_as_absent() {
    let world = World::shared().await;
    let result = world
        .accept(
            ana()
                .with_actor("phone", Value::Null)
                .with_actor("externalId", json!("  "))
                .with_actor("name", json!(""))
                .with("payload", Value::Null),
        )
        .await;
    let client = world.client(&result["clientId"]).await;
    assert_eq!(client["name"], "ana@example.com");
    assert_eq!((&client["phone"], &client["external_id"]), (&Value::Null, &Value::Null));

    let by_id = event("contact.identified").external_id("p-1").with_actor("email", json!(" ")).phone("n/a");
    let client = world.client(&world.accept(by_id).await["clientId"]).await;
    assert_eq!((&client["email"], &client["phone"]), (&Value::Null, &Value::Null));
    assert_eq!((&client["external_id"], &client["name"]), (&json!("p-1"), &json!("p-1")));
}
