//! What an event's `actor` may be, and how it is refused otherwise.

use super::{ana, assert_untouched, refuse_event};
use serde_json::{Value, json};
use tests::{World, event, text};

#[tokio::test]
async fn requires_an_actor_object_of_type_contact() {
    let world = World::shared().await;
    for wrong in [json!("ana@example.com"), json!([]), json!(1)] {
        refuse_event(&world, &ana().with("actor", wrong), "events[0].actor").await;
    }
    for wrong in [Value::Null, json!("person"), json!("Contact"), json!(""), json!(1)] {
        refuse_event(&world, &ana().with_actor("type", wrong), "events[0].actor.type").await;
    }
    let untyped = event("contact.identified").with("actor", json!({"email": "ana@example.com"}));
    refuse_event(&world, &untyped, "events[0].actor.type").await;
    assert_untouched(&world).await;
}

#[tokio::test]
async fn requires_an_email_phone_or_external_id() {
    let world = World::shared().await;
    for nobody in [
        json!({"type": "contact"}),
        json!({"type": "contact", "name": "Ana"}),
        json!({"type": "contact", "email": null, "phone": null, "externalId": null}),
        json!({"type": "contact", "email": "", "phone": "  ", "externalId": " \t"}),
        json!({"type": "contact", "phone": "unknown"}),
        json!({"type": "contact", "phone": "+()-"}),
    ] {
        refuse_event(&world, &event("contact.identified").with("actor", nobody), "events[0].actor").await;
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn rejects_actor_fields_of_wrong_form_or_length() {
    let world = World::shared().await;
    for wrong in [
        "ana",
        "ana@",
        "@example.com",
        "a b@example.com",
        "ana@exa mple.com",
        "Ana <ana@example.com>",
        "a@b@c.com",
    ] {
        refuse_event(&world, &ana().email(wrong), "events[0].actor.email").await;
    }
    let long_email = format!("{}@{}.com", "a".repeat(60), "b".repeat(60).repeat(5));
    for (field, wrong) in [
        ("email", json!(long_email)),
        ("email", json!(1)),
        ("email", json!({})),
        ("phone", json!("1".repeat(41))),
        ("phone", json!(491234)),
        ("externalId", json!("é".repeat(201))),
        ("externalId", json!(7)),
        ("name", json!("é".repeat(201))),
        ("name", json!(["Ana"])),
    ] {
        refuse_event(&world, &ana().with_actor(field, wrong), &format!("events[0].actor.{field}")).await;
    }
    assert_untouched(&world).await;
}

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

#[tokio::test]
async fn trims_an_email_before_checking_and_storing_it() {
    let world = World::shared().await;
    let result = world.accept(event("contact.identified").email(" \tAna@Example.COM \n")).await;
    assert_eq!(world.client(&result["clientId"]).await["email"], "Ana@Example.COM");
}
