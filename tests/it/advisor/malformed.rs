//! Messages that are not actions: an error reply where the sender waits for one, a dead letter otherwise.

use super::refusals::refusals;
use super::{action, count_actions, open_lead, send_message, stored_records, until_settled};
use serde_json::{Value, json};
use tests::{QueuedMessage, World, text, until_equal};

/// Bodies that are not actions, each with the beginning of its error message.
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
        (body("open-lead", json!({"name": "Ana"})), "body: must have either client or email"),
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
async fn with_a_reply_queue_a_malformed_action_gets_every_fault_with_its_place() {
    let world = World::shared().await;
    let lead = open_lead(&world).await["leadId"].clone();
    let before = stored_records(&world).await;
    let malformed = malformed(&lead);
    for (body, fault) in &malformed {
        let reply = send_message(&world, &QueuedMessage::new(body)).await;
        assert_eq!((&reply["statusCode"], &reply["code"]), (&json!(400), &json!("invalid_request")));
        assert!(text(&reply["message"]).starts_with(fault), "{fault}: {reply}");
    }
    assert_eq!(stored_records(&world).await, before);
}

#[tokio::test]
async fn without_a_reply_queue_malformed_actions_are_dead_lettered_unchanged_and_refused_ones_are_not() {
    let world = World::start().await;
    let lead = open_lead(&world).await["leadId"].clone();
    let before = stored_records(&world).await;
    let mut sent: Vec<Vec<u8>> = malformed(&lead).into_iter().map(|(body, _)| body).collect();
    for body in &sent {
        world.queues.publish("crm", body).await;
    }
    until_settled(&world, u32::try_from(sent.len()).expect("few")).await;
    assert_eq!(count_actions(&world, "malformed").await as usize, sent.len());
    assert_eq!(stored_records(&world).await, before);
    let mut kept = Vec::new();
    while let Some(message) = world.queues.take("crm.dead").await {
        kept.push(message.body);
    }
    kept.sort();
    sent.sort();
    assert!(kept == sent, "as they were sent");

    let refusals = refusals(&world).await;
    let before = stored_records(&world).await;
    for (body, ..) in &refusals {
        world.queues.publish("crm", body.to_string().as_bytes()).await;
    }
    until_equal("all are refused", refusals.len(), async || count_actions(&world, "refused").await as usize)
        .await;
    until_settled(&world, 0).await;
    assert_eq!(stored_records(&world).await, before);
    let said = "advisor action refused; replying with the reason if a reply is wanted";
    assert!(world.workers[0].logs().contains(said));
}

#[tokio::test]
async fn rejects_an_unstorable_message_id_and_accepts_a_blank_one() {
    let world = World::shared().await;
    let body = action("open-lead", json!({"email": "ana@example.com"})).to_string();
    let message = QueuedMessage::new(body.as_bytes());
    let reply = send_message(&world, &message.clone().with_id("a\0b")).await;
    assert_eq!((&reply["code"], &reply["statusCode"]), (&json!("invalid_request"), &json!(400)));
    for _ in 0..2 {
        assert_eq!(send_message(&world, &message.clone().with_id(" ")).await["ok"], true);
    }
    assert_eq!(world.database.count("SELECT count(*) FROM leads").await, 2);
}
