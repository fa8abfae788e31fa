//! Messages that are no actions: answered where an answer is wanted, dead letters where not.

use super::{action, ask_with, counted, opened, records, until_settled};
use serde_json::{Value, json};
use tests::{QueuedMessage, World, text};

/// Bodies that are no actions, each with what the error names.
fn malformed(lead: &Value) -> Vec<(Vec<u8>, &'static str)> {
    let body = |name, fields| action(name, fields).to_string().into_bytes();
    let nul = r#"{"action": "archive", "tenant": "acme", "lead": "a\u0000b"}"#;
    let twice = r#"{"action": "archive", "tenant": "acme", "lead": "1", "lead": "2"}"#;
    let mut long = body("archive", json!({ "lead": lead }));
    long.resize(64 * 1024 + 1, b' ');
    vec![
        (b"".to_vec(), "body: is not valid JSON"),
        (b"\xff\xfe\x00".to_vec(), "body: is not valid JSON"),
        (b"not json".to_vec(), "body: is not valid JSON"),
        (b"[1, 2]".to_vec(), "body: must be an object"),
        (b"{}".to_vec(), "tenant: is required; action: is required"),
        (long, "body: must have at most 64 KiB"),
        (nul.as_bytes().to_vec(), "body: must not contain a NUL character"),
        (twice.as_bytes().to_vec(), "lead: is given more than once"),
        (br#"{"action": "archive", "lead": "1"}"#.to_vec(), "tenant: is required"),
        (body("delete-everything", json!({ "lead": lead })), "action: must be one of open-lead, assign"),
        (body("archive", json!({})), "lead: is required"),
        (body("archive", json!({"lead": null})), "lead: must not be null"),
        (body("archive", json!({"lead": lead, "reason": "x"})), "reason: is not a known field"),
        (body("open-lead", json!({"name": "Ana"})), "body: must have client, or email"),
        (body("open-lead", json!({"email": "ana"})), "email: must be an email address"),
        (body("open-lead", json!({"email": "a@b.example", "noTrip": 1})), "noTrip: must be true or false"),
        (body("assign", json!({ "lead": lead })), "owner: is required"),
        (body("stage", json!({"lead": lead, "stage": "won"})), "stage: must be one of inquiry"),
        (
            body("proposal-send", json!({"lead": lead, "title": "T", "url": "x", "channel": "email"})),
            "url: must",
        ),
        (body("booking-confirm", json!({ "lead": lead })), "bookingRef: is required"),
        (
            body(
                "booking-confirm",
                json!({"lead": lead, "bookingRef": "B", "amount": "ten", "currency": "INR"}),
            ),
            "amount: must be a number",
        ),
        (
            body("booking-confirm", json!({"lead": lead, "bookingRef": "B", "amount": 10})),
            "currency: is required with amount",
        ),
        (body("booking-cancel", json!({"reason": "x"})), "bookingRef: is required"),
    ]
}

#[tokio::test]
async fn with_somebody_waiting_it_is_answered_with_every_fault_and_its_place() {
    let world = World::start().await;
    let lead = opened(&world).await["leadId"].clone();
    let before = records(&world).await;
    let malformed = malformed(&lead);
    for (body, fault) in &malformed {
        let answer = ask_with(&world, &QueuedMessage::new(body)).await;
        assert_eq!((&answer["statusCode"], &answer["code"]), (&json!(400), &json!("invalid_request")));
        assert!(text(&answer["message"]).starts_with(fault), "{fault}: {answer}");
    }
    until_settled(&world, 0).await;
    assert_eq!(records(&world).await, before);
    assert_eq!(counted(&world, "malformed").await as usize, malformed.len());
}

#[tokio::test]
async fn with_nobody_waiting_it_is_a_dead_letter_as_it_was_sent_and_the_worker_goes_on() {
    let world = World::start().await;
    let lead = opened(&world).await["leadId"].clone();
    let before = records(&world).await;
    let mut sent: Vec<Vec<u8>> = malformed(&lead).into_iter().map(|(body, _)| body).collect();
    for body in &sent {
        world.queues.publish("crm", body).await;
    }
    until_settled(&world, u32::try_from(sent.len()).expect("few")).await;
    assert_eq!(records(&world).await, before);
    let mut kept = Vec::new();
    while let Some(message) = world.queues.take("crm.dead").await {
        kept.push(message.body);
    }
    kept.sort();
    sent.sort();
    assert!(kept == sent, "as they were sent");
    opened(&world).await;
}

#[tokio::test]
async fn a_message_id_that_cannot_be_kept_is_a_fault_and_a_blank_one_is_none() {
    let world = World::start().await;
    let body = action("open-lead", json!({"email": "ana@example.com"})).to_string();
    let message = QueuedMessage::new(body.as_bytes());
    let answer = ask_with(&world, &message.clone().with_id("a\0b")).await;
    assert_eq!((&answer["code"], &answer["statusCode"]), (&json!("invalid_request"), &json!(400)));
    for _ in 0..2 {
        assert_eq!(ask_with(&world, &message.clone().with_id(" ")).await["ok"], true);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
}
