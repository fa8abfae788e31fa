//! The fields of the envelope and of its actor.

use super::{ana, assert_untouched, refuse, refuse_event};
use serde_json::{Value, json};
use tests::World;
use tests::event::batch;

#[tokio::test]
async fn rejects_fields_of_another_form_or_length_and_names_their_place() {
    let world = World::shared().await;
    world.add_tenant("zeta").await;
    let [long, accented, wide] = ["x", "é", "🧳"].map(|letter| letter.repeat(101));
    let (long_texts, text) = ([long.as_str(), &accented, &wide], "é".repeat(201));
    let (digits, ones) = ("1".repeat(41), "1".repeat(17));
    let long_email = format!("{}@{}.com", "a".repeat(60), "b".repeat(60).repeat(5));
    for (field, why, values) in [
        ("specVersion", "another version", &["1", "1.1", "2.0", "v1.0", "1.0.0", "10", &ones][..]),
        ("eventType", "unknown", &["contact.deleted", "Contact.Identified", "contact", "enquiry.submitted "]),
        ("eventType", "outbound", &["lead.assigned", "proposal.sent"]),
        ("eventId", "too long", &long_texts),
        ("eventId", "reserved for the records API", &["connect-api:", "connect-api:1"]),
        ("origin", "too long", &long_texts),
        ("tenant", "too long", &long_texts),
        ("tenant", "not the key's", &[&tests::slug("zeta"), "nobody", "acme2", "acm", "a cme"]),
        (
            "occurredAt",
            "no time",
            &["2026-05-01", "2026-05-01T10:00Z", "1 May 2026", "yesterday", "1777629600"],
        ),
        ("occurredAt", "no offset", &["2026-05-01T10:00:00", "2026-05-01T10:00:00+25:00"]),
        ("occurredAt", "another form", &["2026-05-01T10:00:00 Z", "2026-05-01 10:00:00Z"]),
        ("occurredAt", "another offset", &["2026-05-01T10:00:00+0200"]),
        ("occurredAt", "no such day", &["2026-02-30T10:00:00Z", "2026-13-01T10:00:00Z"]),
        ("occurredAt", "no such time", &["2026-05-01T25:00:00Z", "2026-05-01T10:61:00Z"]),
        ("occurredAt", "no such year", &["-2026-05-01T10:00:00Z", "+12026-05-01T10:00:00Z"]),
        ("payload", "no object", &["text"]),
        ("actor", "no object", &["ana@example.com"]),
        ("actor.type", "another type", &["person", "Contact", ""]),
        ("actor.email", "half an address", &["ana", "ana@", "@example.com", "a@b@c.com"]),
        ("actor.email", "a blank", &["a b@example.com", "ana@exa mple.com", "Ana <ana@example.com>"]),
        ("actor.email", "too long", &[&long_email]),
        ("actor.phone", "too long", &[&digits]),
        ("actor.externalId", "too long", &[&text]),
        ("actor.name", "too long", &[&text]),
    ] {
        for value in values {
            refuse_value(&world, field, why, json!(value)).await;
        }
    }
    for (field, values) in [
        ("payload", json!([[], 1, true, [{}]])),
        ("actor", json!([[], 1, {"type": "contact"}, {"type": "contact", "name": "Ana"}])),
        ("actor", json!([{"type": "contact", "email": null, "phone": null, "externalId": null}])),
        ("actor", json!([{"type": "contact", "email": "", "phone": "  ", "externalId": " \t"}])),
        ("actor", json!([{"type": "contact", "phone": "unknown"}, {"type": "contact", "phone": "+()-"}])),
        ("actor.type", json!([null, 1])),
        ("actor.email", json!([1, {}])),
        ("actor.phone", json!([491_234])),
        ("actor.externalId", json!([7])),
        ("actor.name", json!([["Ana"]])),
    ] {
        for value in values.as_array().expect("values") {
            refuse_value(&world, field, "another type, or nobody", value.clone()).await;
        }
    }
    let untyped = ana().with("actor", json!({"email": "ana@example.com"}));
    refuse_event(&world, &untyped, "events[0].actor.type").await;
    assert_untouched(&world).await;
}

/// Sends an event with this value of a field of its own or of its actor's, which must be refused.
async fn refuse_value(world: &World, field: &str, why: &str, value: Value) {
    let event = match field.strip_prefix("actor.") {
        Some(of_actor) => ana().with_actor(of_actor, value),
        None => ana().with(field, value),
    };
    let message = refuse(world, batch(&[event])).await;
    assert!(message.contains(&format!("events[0].{field}: ")), "{field}, {why}: {message}");
}

#[tokio::test]
async fn one_invalid_envelope_rejects_the_batch_and_every_fault_is_named() {
    let world = World::shared().await;
    let mut events: Vec<_> = (0..9).map(|i| ana().email(&format!("{i}@example.com"))).collect();
    events[3] = ana().with_actor("email", json!("not an address")).without("origin");
    events[7] = ana().with("eventType", json!("nope"));
    let message = refuse(&world, batch(&events)).await;
    for place in ["events[3].actor.email: ", "events[3].origin: ", "events[7].eventType: "] {
        assert!(message.contains(place), "{place} isn't named in: {message}");
    }
    assert!(!message.contains("events[2]"), "{message}");
    assert_untouched(&world).await;
}

#[tokio::test]
async fn limits_the_length_of_the_error_message() {
    let world = World::shared().await;
    let broken = ana().without("origin").without("tenant").with("eventType", json!("x".repeat(1_000)));
    let message = refuse(&world, batch(&vec![broken; 100])).await;
    assert!(message.contains("events[0].") && message.len() < 2_000, "{} characters", message.len());
    assert!(!message.contains("xxxx"), "what was sent is repeated: {message}");
    assert_untouched(&world).await;
}
