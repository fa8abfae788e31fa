//! `queue requeue` of events, records and crm, and of webhooks, which goes through the database.

use super::{bodies, poison, until_dead, world};
use crate::connectctl::deliveries::tenant;
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::{Behavior, Connectctl, MAX_WAIT, QueuedMessage, Receiver, World, event, eventually, text, until};
use uuid::Uuid;

/// Messages of a command that is killed before it is done.
const TOTAL: u32 = 2_000;
/// Bytes that this command can send: less than all messages have.
const SENT: usize = 100_000;

#[tokio::test]
async fn a_requeued_batch_is_applied_and_a_records_write_past_its_deadline_is_not() {
    let mut world = World::with().workers(0).set("CONNECT_REPLY_TIMEOUT", "200ms").start().await;
    let enquiry = event("enquiry.submitted").email("ana@example.com");
    world.send(std::slice::from_ref(&enquiry)).await.assert_error(503, "processing_timeout");
    let batch = world.queues.take("events").await.expect("the batch");
    world.queues.publish_message("events.dead", &batch.verbatim()).await;
    let requeued = world.connectctl.json(&["queue", "requeue", "events", "--dead"]).await;
    assert_eq!(requeued, json!({"requeued": 1, "kept": 0, "removed": 0}));
    world.add_worker().await;
    world.until_applied(1).await;
    assert_eq!(world.queues.depth("events.dead").await, 0);

    world.end_workers().await;
    let body = json!({"contact": {"email": "bo@example.com"}}).to_string();
    let lead = world.key.records("POST", &format!("{}/leads", tests::RECORDS), body).with("idempotency-key", "k-1");
    world.http().send(&lead).await.assert_error(503, "processing_timeout");
    let write = world.queues.take("records").await.expect("the write");
    world.queues.publish_message("records.dead", &write.verbatim()).await;
    let requeued = world.connectctl.json(&["queue", "requeue", "records", "--dead"]).await;
    assert_eq!(requeued["requeued"], 1);
    world.add_worker().await;
    world.workers[0].until_sum("connect_queue_lag_seconds_count", &[("queue", "records")], 1.0).await;
    assert_eq!(world.pipeline(&[]).await.len(), 1, "its caller was told 503");
    assert_eq!(world.queues.depth("records.dead").await, 0);
}

#[tokio::test]
async fn a_requeued_message_keeps_its_metadata_and_has_no_reply_queue() {
    let mut world = world().await;
    let sent =
        QueuedMessage::new(b"x").with_meta("{}").with_header("traceparent", "00-1").with_id_and_reply("m-1", "nobody");
    world.queues.publish_message("events", &sent).await;
    until_dead(&world, "events", 1).await;
    // The worker would consume it immediately.
    world.end_workers().await;
    world.connectctl.json(&["queue", "show", "events", "--dead"]).await;
    world.connectctl.json(&["queue", "requeue", "events", "--dead"]).await;
    let back = world.queues.take("events").await.expect("the message");
    let expected = (["traceparent", "x-connect-mac", "x-connect-meta"].map(str::to_owned).to_vec(), 0);
    assert_eq!((back.headers(), back.delivery_count()), expected);
    assert_eq!((back.id().as_deref(), back.wants_reply(), back.is_persistent()), (Some("m-1"), false, true));
    assert_eq!((back.body, world.queues.depth("events.dead").await), (b"x".to_vec(), 0));
}

#[tokio::test]
async fn messages_that_are_dead_lettered_again_are_requeued_once() {
    let world = world().await;
    world.queues.publish_all("events", &poison(500)).await;
    until_dead(&world, "events", 500).await;
    let ran = world.connectctl.run(&["queue", "requeue", "events", "--dead"]).await;
    assert!(ran.errors.lines().any(|line| line == "requeued 500 of 500"), "{ran:?}");
    until_dead(&world, "events", 500).await;
    let rejected = world.workers[0].metrics().await.sum("connect_dead_lettered_total", &[("queue", "events")]);
    assert_eq!(rejected, 1_000.0);
}

#[tokio::test]
async fn requeues_the_oldest_first_and_keeps_the_order_of_the_rest() {
    let mut world = world().await;
    world.end_workers().await;
    let sent = poison(40);
    world.queues.publish_all("records.dead", &sent).await;
    let requeued = world.connectctl.json(&["queue", "requeue", "records", "--dead", "--limit", "15"]).await;
    assert_eq!(requeued["requeued"], 15);
    world.until_depth("records", 15).await;
    world.until_depth("records.dead", 25).await;
    assert_eq!(bodies(&world.queues.take_all("records").await), bodies(&sent[..15]));
    assert_eq!(bodies(&world.queues.take_all("records.dead").await), bodies(&sent[15..]));
}

#[tokio::test]
async fn requeueing_into_a_full_queue_loses_nothing() {
    let mut world = World::with().ingests(0).set("CONNECT_QUEUE_MAX_LENGTH", "60").start().await;
    world.workers[0].until_ready().await;
    world.end_workers().await;
    let (waiting, dead) = (poison(61), poison(50));
    world.queues.publish_all("events", &waiting).await;
    world.queues.publish_all("events.dead", &dead).await;
    let refusal = world.connectctl.refusal(&["queue", "requeue", "events", "--dead"]).await;
    assert!(refusal.contains("requeued, the others stay"), "{refusal}");
    assert!(refusal.contains("refused a message: it is full"), "{refusal}");
    until_in_queues(&world, (waiting.len() + dead.len()) as u32).await;
    let back = world.queues.take_all("events").await.len() - waiting.len();
    assert!(back < dead.len(), "the queue takes more than it may: {back}");

    // Messages that were requeued before the queue was full are not requeued again.
    let rest = world.connectctl.json(&["queue", "requeue", "events", "--dead"]).await;
    assert_eq!(rest, json!({"requeued": dead.len() - back, "kept": 0, "removed": 0}));
    world.until_depth("events", (dead.len() - back) as u32).await;
    assert_eq!(bodies(&world.queues.take_all("events").await), bodies(&dead[back..]));
}

/// Waits until both queues have at least `count` messages together, and returns the depth of each.
async fn until_in_queues(world: &World, count: u32) -> (u32, u32) {
    eventually("all are in a queue", MAX_WAIT, async || {
        let (back, dead) = (world.queues.depth("events").await, world.queues.depth("events.dead").await);
        if back + dead >= count { Ok((back, dead)) } else { Err(format!("{back} back, {dead} dead")) }
    })
    .await
}

#[tokio::test]
async fn a_killed_requeue_loses_nothing_and_the_next_run_finishes() {
    let mut world = World::with().ingests(0).through_proxies().start().await;
    world.workers[0].until_ready().await;
    let sent = poison(TOTAL);
    world.queues.publish_all("events", &sent).await;
    until_dead(&world, "events", TOTAL).await;
    world.end_workers().await;
    world.proxies().broker.stall_after(SENT);
    let stalled = Connectctl::with(world.settings().to_vec());
    let mut command = stalled.start(&["queue", "requeue", "events", "--dead"]);
    until("some are put back", async || world.queues.depth("events").await, |&found| found > 0).await;
    command.kill().await.expect("it can be killed");
    // Its unacknowledged messages return once the broker notices the closed connection.
    let (back, dead) = until_in_queues(&world, TOTAL).await;
    assert!(back < TOTAL && dead > 0, "{back} back, {dead} dead");

    let rest = world.connectctl.json(&["queue", "requeue", "events", "--dead"]).await;
    assert_eq!(rest["requeued"], json!(dead));
    until_dead(&world, "events", 0).await;
    until_in_queues(&world, TOTAL).await;
    let all = bodies(&world.queues.take_all("events").await);
    let distinct: HashSet<&String> = all.iter().collect();
    assert_eq!(distinct.len(), sent.len());
    assert!(all.len() - distinct.len() <= 256, "more than a window twice: {}", all.len());
}

/// A delivery of `slug` in that state, and its notice.
async fn dead(world: &World, slug: &str, state: &str) -> (Uuid, QueuedMessage) {
    let tenant = tenant(world, slug).await;
    let create = ["subscription", "create", "--tenant", slug, "--url", "https://1.1.1.1/hooks"];
    let made = world.connectctl.json(&create).await;
    let subscription: Uuid = text(&made["id"]).parse().expect("a UUID");
    let (delivery, event) = (Uuid::now_v7(), Uuid::now_v7());
    let insert = "INSERT INTO deliveries
            (tenant_id, delivery_id, event_id, subscription_id, state, created_at, attempts, number, next_attempt_at)
        VALUES ($1, $2, $3, $4, $5, now(), 6, 1, CASE $5 WHEN 'pending' THEN now() END)";
    let client = world.database.connect().await;
    client.execute(insert, &[&tenant, &delivery, &event, &subscription, &state]).await.expect("a row");
    let meta = json!({"tenantId": tenant, "deliveryId": delivery, "subscriptionId": subscription, "eventId": event,
        "eventType": "lead.assigned", "attempt": 6, "publishedAt": "2026-05-01T10:00:00Z", "reason": "status 500"});
    (delivery, QueuedMessage::new(b"{}").with_meta(&meta.to_string()))
}

async fn state(world: &World, delivery: Uuid) -> Value {
    let query = "SELECT state, attempts_before FROM deliveries WHERE delivery_id = $1";
    world.database.rows(query, &[&delivery]).await.remove(0)
}

#[tokio::test]
async fn replays_dead_deliveries_of_all_tenants_and_removes_their_notices() {
    let world = world().await;
    world.add_tenant("zeta").await;
    let (acme, of_acme) = dead(&world, "acme", "dead").await;
    let (zeta, of_zeta) = dead(&world, "zeta", "dead").await;
    let (_, delivered_since) = dead(&world, "acme", "delivered").await;
    let (pending, on_its_way) = dead(&world, "acme", "pending").await;
    let unknown = QueuedMessage::new(b"not ours");
    let letters = [of_acme.clone(), unknown, of_zeta, delivered_since, on_its_way, of_acme];
    world.queues.publish_all("webhooks.dead", &letters).await;

    let ran = world.connectctl.run(&["queue", "requeue", "webhooks", "--dead"]).await;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.errors.contains("replayed as deliveries"), "{ran:?}");
    for delivery in [acme, zeta] {
        assert_eq!(state(&world, delivery).await, json!({"state": "pending", "attempts_before": 6}));
    }
    assert_eq!(state(&world, pending).await, json!({"state": "pending", "attempts_before": 0}), "left alone");
    let left = world.queues.take_all("webhooks.dead").await;
    assert_eq!((left.len(), left[0].body.as_slice()), (1, b"not ours".as_slice()));
}

#[tokio::test]
async fn counts_requeued_kept_and_removed_webhooks() {
    let world = world().await;
    let (first, of_first) = dead(&world, "acme", "dead").await;
    let (second, of_second) = dead(&world, "acme", "dead").await;
    let (_, dropped_since) = dead(&world, "acme", "dropped").await;
    world.queues.publish_all("webhooks.dead", &[dropped_since, of_first, of_second]).await;
    let requeue = ["queue", "requeue", "webhooks", "--dead", "--limit", "2"];
    assert_eq!(world.connectctl.json(&requeue).await, json!({"requeued": 1, "kept": 0, "removed": 1}));
    assert_eq!(state(&world, first).await["state"], "pending");
    assert_eq!(state(&world, second).await["state"], "dead", "beyond the limit");
    assert_eq!(world.connectctl.json(&requeue).await, json!({"requeued": 1, "kept": 0, "removed": 0}));
}

#[tokio::test]
async fn a_dead_delivery_can_be_replayed_after_its_notice_was_dropped() {
    let builder = World::with().dispatchers(1).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true");
    let world = builder.set("CONNECT_WEBHOOK_ATTEMPTS", "1").start().await;
    let receiver = Receiver::http();
    receiver.respond_to_all(Behavior::status(500));
    world.subscribe(&receiver.url("/hooks")).await;
    world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    until_dead(&world, "webhooks", 1).await;
    let shown = world.connectctl.list(&["queue", "show", "webhooks", "--dead"]).await;
    let delivery = receiver.wait_for(1).await.remove(0).header("x-connect-delivery").to_owned();
    assert_eq!(shown[0]["deliveryId"], delivery, "{shown:?}");
    assert_eq!(shown[0]["why"], "all attempts failed: see connectctl delivery show");
    assert_eq!((&shown[0]["reason"], &shown[0]["mac"]), (&json!("status 500"), &json!("valid")));

    let drop = ["queue", "drop", "webhooks", "--dead", "--yes"];
    assert_eq!(world.connectctl.json(&drop).await, json!({"dropped": 1}));
    receiver.respond_to_all(Behavior::status(200));
    world.connectctl.json(&["delivery", "replay", &delivery]).await;
    let received = receiver.wait_for(2).await;
    assert_eq!(received[1].header("x-connect-delivery"), delivery);
    assert_eq!(world.queues.depth("webhooks.dead").await, 0);
}
