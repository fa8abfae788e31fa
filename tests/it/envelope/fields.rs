//! The envelope's own fields.

use super::{ana, assert_untouched, refuse, refuse_event};
use serde_json::{Value, json};
use tests::World;
use tests::event::batch;

const REQUIRED: [&str; 7] =
    ["specVersion", "eventId", "eventType", "occurredAt", "tenant", "origin", "actor"];

#[tokio::test]
async fn rejects_required_fields_that_are_missing_null_or_of_another_type() {
    let world = World::shared().await;
    for field in REQUIRED {
        let place = format!("events[0].{field}");
        refuse_event(&world, &ana().without(field), &place).await;
        for wrong in [Value::Null, json!(1), json!(true), json!([]), json!("")] {
            refuse_event(&world, &ana().with(field, wrong), &place).await;
        }
        if field != "actor" {
            refuse_event(&world, &ana().with(field, json!(" \t ")), &place).await;
            refuse_event(&world, &ana().with(field, json!({})), &place).await;
        }
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn rejects_other_versions_and_unknown_event_types() {
    let world = World::shared().await;
    for version in ["1", "1.1", "2.0", "v1.0", "1.0.0", "10", &"1".repeat(17)] {
        refuse_event(&world, &ana().with("specVersion", json!(version)), "events[0].specVersion").await;
    }
    for unknown in [
        "contact.deleted",
        "Contact.Identified",
        "contact",
        "lead.assigned",
        "proposal.sent",
        "enquiry.submitted ",
    ] {
        refuse_event(&world, &ana().with("eventType", json!(unknown)), "events[0].eventType").await;
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn limits_ids_tenant_and_origin_to_a_hundred_characters() {
    let world = World::shared().await;
    for field in ["eventId", "origin", "tenant"] {
        for long in ["x".repeat(101), "é".repeat(101), "🧳".repeat(101)] {
            refuse_event(&world, &ana().with(field, json!(long)), &format!("events[0].{field}")).await;
        }
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn rejects_event_ids_reserved_for_the_records_api() {
    let world = World::shared().await;
    for id in ["connect-api:", "connect-api:1", "connect-api:0190a5b2-0000-7000-8000-000000000001"] {
        refuse_event(&world, &ana().id(id), "events[0].eventId").await;
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn rejects_an_occurred_at_that_is_not_an_instant_with_an_offset() {
    let world = World::shared().await;
    for wrong in [
        "2026-05-01",
        "2026-05-01T10:00:00",
        "2026-05-01T10:00:00 Z",
        "2026-05-01 10:00:00Z",
        "2026-02-30T10:00:00Z",
        "2026-13-01T10:00:00Z",
        "2026-05-01T25:00:00Z",
        "2026-05-01T10:61:00Z",
        "2026-05-01T10:00Z",
        "2026-05-01T10:00:00+25:00",
        "2026-05-01T10:00:00+0200",
        "1777629600",
        "1 May 2026",
        "yesterday",
        "-2026-05-01T10:00:00Z",
        "+12026-05-01T10:00:00Z",
    ] {
        refuse_event(&world, &ana().with("occurredAt", json!(wrong)), "events[0].occurredAt").await;
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn rejects_a_tenant_other_than_the_keys() {
    let world = World::shared().await;
    world.add_tenant("zeta").await;
    for tenant in ["zeta", "nobody", "acme2", "acm", "a cme"] {
        refuse_event(&world, &ana().tenant(tenant), "events[0].tenant").await;
    }
    assert_untouched(&world).await;
}

#[tokio::test]
async fn rejects_a_payload_that_is_not_an_object() {
    let world = World::shared().await;
    for wrong in [json!([]), json!("text"), json!(1), json!(true), json!([{}])] {
        refuse_event(&world, &ana().payload(wrong), "events[0].payload").await;
    }
    assert_untouched(&world).await;
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
