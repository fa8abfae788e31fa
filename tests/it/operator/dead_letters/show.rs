//! `queue show`.

use super::{batch_meta, bodies, poison, until_dead, world};
use crate::connectctl::fields;
use serde_json::json;
use tests::{QueuedMessage, text};
use uuid::Uuid;

#[tokio::test]
async fn shows_reason_and_time_of_dead_letters_without_personal_data() {
    let world = world().await;
    let body = br#"{"events":[{"actor":{"email":"ana@example.com"}}]}"#;
    let meta = batch_meta(&world).await;
    let poison = [
        QueuedMessage::new(body).with_id_and_reply("m-1", "nobody"),
        QueuedMessage::new(body).with_meta("{\"caller\":\"ana@example.com\"}"),
        QueuedMessage::new(body).with_meta(&meta.to_string()),
    ];
    // To the second, as the broker tells it.
    let now = || common::clock::to_text(common::clock::now())[..19].to_owned();
    let before = now();
    world.queues.publish_all("events", &poison).await;
    until_dead(&world, "events", 3).await;
    let after = now();

    let ran = world.connectctl.run(&["queue", "show", "events", "--dead", "--json"]).await;
    assert!(!ran.output.contains("ana@"), "{ran:?}");
    let shown = ran.json();
    let mut shown = shown.as_array().expect("an array").clone();
    // Two lanes of the worker rejected them, in any order.
    shown.sort_by_key(|letter| letter["why"].to_string());
    let whys: Vec<&str> = shown.iter().map(|letter| text(&letter["why"])).collect();
    assert_eq!(whys, ["has no metadata", "its body cannot be parsed", "its metadata cannot be parsed"]);
    for letter in &shown {
        let expected = "at bytes count deliveryId eventId mac messageId publishedAt reason requestId subscriptionId tenantId \
            type why";
        assert_eq!(fields(letter).join(" "), expected);
        assert_eq!((&letter["reason"], &letter["count"]), (&json!("rejected"), &json!(1)));
        assert_eq!((&letter["bytes"], &letter["mac"]), (&json!(body.len()), &json!("valid")));
        let at = &text(&letter["at"])[..19];
        assert!(before.as_str() <= at && at <= after.as_str(), "{letter}");
    }
    assert_eq!((&shown[0]["messageId"], &shown[0]["type"]), (&json!("m-1"), &json!(null)));
    assert_eq!((&shown[1]["requestId"], &shown[1]["type"]), (&meta["requestId"], &json!("batch of 1")));
    assert_eq!(shown[1]["tenantId"], meta["caller"]["tenant_id"]);
    let table = world.connectctl.run(&["queue", "show", "events", "--dead"]).await;
    assert!(table.output.contains("has no metadata") && !table.output.contains("ana@"), "{table:?}");
}

#[tokio::test]
async fn showing_dead_letters_keeps_them_and_their_order() {
    let world = world().await;
    // More than the command consumes on one channel.
    let sent = poison(7_000);
    world.queues.publish_all("events.dead", &sent).await;
    let look = async |limit: usize| {
        let limited = ["queue", "show", "events", "--dead", "--limit", &limit.to_string()];
        assert_eq!(world.connectctl.list(&limited).await.len(), limit.min(7_000));
    };
    // RabbitMQ 4 would drop what was handed out twenty times, had the queue no limit of its own.
    for looks in 0..25 {
        look(looks + 1).await;
    }
    look(8_000).await;
    until_dead(&world, "events", 7_000).await;
    assert_eq!(bodies(&world.queues.take_all("events.dead").await), bodies(&sent));
}

#[tokio::test]
async fn shows_a_dead_webhook_with_its_delivery_ids() {
    let world = world().await;
    let id = |n: u8| format!("00000000-0000-7000-8000-0000000000{n:02}");
    let meta = json!({"tenantId": id(1), "deliveryId": id(2), "subscriptionId": id(3), "eventId": id(4),
        "eventType": "lead.assigned", "attempt": 6, "publishedAt": "2026-05-01T10:00:00Z", "reason": "status 500"});
    world
        .queues
        .publish_message("webhooks.dead", &QueuedMessage::new(b"{}").with_meta(&meta.to_string()))
        .await;
    let shown = world.connectctl.list(&["queue", "show", "webhooks", "--dead"]).await;
    let expected = json!({"at": null, "reason": "status 500", "why": "all attempts failed: see connectctl delivery show",
        "mac": "valid", "count": null, "bytes": 2, "messageId": null, "type": "lead.assigned", "tenantId": id(1), "requestId": null,
        "deliveryId": id(2), "subscriptionId": id(3), "eventId": id(4), "publishedAt": "2026-05-01T10:00:00.000Z"});
    assert_eq!(shown, [expected]);
}

#[tokio::test]
async fn explains_the_dead_letters_of_each_queue() {
    let mut world = world().await;
    let write = json!({"requestId": Uuid::now_v7(), "caller": batch_meta(&world).await["caller"], "publishedAt":
        "2026-05-01T10:00:00Z", "deadline": "2026-05-01T10:00:10Z", "target": "newLead"});
    world.queues.publish_message("records", &QueuedMessage::new(b"{}").with_meta("ana@example.com")).await;
    world.queues.publish_message("crm", &QueuedMessage::new(b"ana@example.com")).await;
    until_dead(&world, "records", 1).await;
    until_dead(&world, "crm", 1).await;
    world.end_workers().await;
    // As if every worker that consumed it had crashed.
    world.queues.publish_message("records", &QueuedMessage::new(b"{}").with_meta(&write.to_string())).await;
    let times = world.queues.exhaust_deliveries("records").await;
    assert!(times >= 20, "{times}");
    until_dead(&world, "records", 2).await;

    let whys = async |queue: &str| -> Vec<String> {
        let shown = world.connectctl.list(&["queue", "show", queue, "--dead"]).await;
        assert!(!shown.iter().any(|letter| letter.to_string().contains("ana@")), "{shown:?}");
        shown.iter().map(|letter| text(&letter["why"]).to_owned()).collect()
    };
    assert_eq!(
        whys("crm").await,
        [
            "cannot be parsed as an action, failed with an internal error, or has no MAC although CONNECT_CRM_UNSIGNED is refuse"
        ]
    );
    let of_records = [
        "its metadata cannot be parsed",
        "delivered too often without an ack: its consumers disconnected each time",
    ];
    assert_eq!(whys("records").await, of_records);
}
