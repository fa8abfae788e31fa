//! Messages of dead-letter queues expire only if that is set, and never those of webhooks that can still be replayed.

use super::{Webhook, days_ago, of, tenant};
use common::clock;
use common::retention::DEAD_LETTERS_OF_SCAN;
use serde_json::json;
use tests::{MAX_WAIT, QueuedMessage, World, eventually};
use uuid::Uuid;

/// A world whose worker has declared the queues.
async fn world() -> World {
    let world = World::with().ingests(0).start().await;
    world.until_ready().await;
    world
}

/// A message that was published so many days ago.
fn letter(days: i64) -> QueuedMessage {
    let meta = json!({"publishedAt": clock::to_text(days_ago(days))});
    QueuedMessage::new(days.to_string().as_bytes()).with_meta(&meta.to_string())
}

/// The dead letter of a delivery, which was published 60 days ago.
fn webhook_letter(tenant: Uuid, delivery: Uuid) -> QueuedMessage {
    let meta = json!({"tenantId": tenant, "deliveryId": delivery, "subscriptionId": tenant, "eventId": delivery,
        "eventType": "lead.assigned", "attempt": 6, "publishedAt": clock::to_text(days_ago(60))});
    QueuedMessage::new(delivery.to_string().as_bytes()).with_meta(&meta.to_string())
}

/// More messages of that age than a scan reads.
fn many_letters(days: i64) -> Vec<QueuedMessage> {
    vec![letter(days); usize::try_from(DEAD_LETTERS_OF_SCAN + 100).expect("a number")]
}

async fn bodies(world: &World, queue: &str) -> Vec<String> {
    let messages = world.queues.take_all(queue).await;
    messages.iter().map(|message| String::from_utf8_lossy(&message.body).into_owned()).collect()
}

#[tokio::test]
async fn old_dead_letters_are_removed_only_if_that_is_set() {
    let world = world().await;
    let timeless = QueuedMessage::new(b"no time");
    world.queues.publish_all("events.dead", &[letter(40), timeless, letter(31), letter(29), letter(0)]).await;
    let kept = world.connectctl.list(&["retention", "run"]).await;
    assert_eq!(of(&kept, "dead_letters", "removed"), 0);
    assert_eq!(world.queues.depth("events.dead").await, 5);

    let connectctl = world.connectctl.clone().and("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    let plan = connectctl.list(&["retention", "plan"]).await;
    assert_eq!(
        (of(&plan, "dead_letters", "keep"), of(&plan, "dead_letters", "due")),
        (&json!("30d"), &json!(2))
    );
    let removed = connectctl.list(&["retention", "run"]).await;
    assert_eq!(of(&removed, "dead_letters", "removed"), 2);
    assert_eq!(bodies(&world, "events.dead").await, ["no time", "29", "0"], "in their order");
}

#[tokio::test]
async fn messages_that_a_program_dead_lettered_are_as_old_as_their_queue_says() {
    let world = world().await;
    world.queues.publish("records", b"poison").await;
    world.until_depth("records.dead", 1).await;
    for (period, removed) in [("1h", 0), ("1ms", 1)] {
        let connectctl = world.connectctl.clone().and("CONNECT_RETENTION_DEAD_LETTERS", period);
        let report = connectctl.list(&["retention", "run"]).await;
        assert_eq!(of(&report, "dead_letters", "removed"), removed, "{period}");
    }
}

#[tokio::test]
async fn dead_letters_of_webhooks_that_can_be_replayed_never_expire() {
    let world = world().await;
    let tenant = tenant(&world.database).await;
    let (mut open, mut settled) = (Vec::new(), vec![Uuid::now_v7()]);
    for state in ["dead", "pending", "delivered", "dropped"] {
        let webhook = Webhook::write(&world.database, state, days_ago(60), days_ago(60)).await;
        let is_open = ["dead", "pending"].contains(&state);
        (if is_open { &mut open } else { &mut settled }).push(webhook.delivery);
    }
    let letters = open.iter().chain(&settled).map(|delivery| webhook_letter(tenant, *delivery));
    world.queues.publish_all("webhooks.dead", &letters.collect::<Vec<_>>()).await;
    let connectctl = world.connectctl.clone().and("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    let removed = connectctl.list(&["retention", "run"]).await;
    assert_eq!(of(&removed, "dead_letters", "removed"), 3);
    let kept: Vec<String> = open.iter().map(Uuid::to_string).collect();
    assert_eq!(bodies(&world, "webhooks.dead").await, kept);
}

#[tokio::test]
async fn the_worker_removes_old_dead_letters_by_itself() {
    let mut world = world().await;
    world.queues.publish_all("crm.dead", &[letter(40), letter(0)]).await;
    world.set("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    world.add_worker().await;
    eventually("the old one is removed", MAX_WAIT, async || {
        match world.workers[1]
            .metrics()
            .await
            .sum("connect_retention_removed_total", &[("what", "dead_letters")])
        {
            1.0 => Ok(()),
            removed => Err(format!("{removed} removed")),
        }
    })
    .await;
    assert_eq!(bodies(&world, "crm.dead").await, ["0"]);
}

#[tokio::test]
async fn a_run_removes_more_dead_letters_than_one_scan_reads() {
    let world = world().await;
    world.queues.publish_all("events.dead", &many_letters(40)).await;
    world.queues.publish_all("events.dead", &[letter(0)]).await;
    let connectctl = world.connectctl.clone().and("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    let plan = connectctl.run(&["retention", "plan", "--json"]).await;
    assert_eq!(of(plan.json().as_array().expect("a list"), "dead_letters", "due"), DEAD_LETTERS_OF_SCAN);
    assert!(plan.errors.contains("only the oldest 5000 messages were counted"), "{plan:?}");
    let run = connectctl.run(&["retention", "run", "--json"]).await;
    let removed = DEAD_LETTERS_OF_SCAN + 100;
    assert_eq!(of(run.json().as_array().expect("a list"), "dead_letters", "removed"), removed);
    assert_eq!(run.errors, "", "everything was reached");
    assert_eq!(bodies(&world, "events.dead").await, ["0"]);
}

#[tokio::test]
async fn the_worker_removes_more_dead_letters_than_one_scan_reads() {
    let mut world = world().await;
    world.queues.publish_all("crm.dead", &many_letters(40)).await;
    world.set("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    world.add_worker().await;
    world.until_depth("crm.dead", 0).await;
}

#[tokio::test]
async fn dead_letters_behind_those_that_stay_are_reported() {
    let mut world = world().await;
    let timeless =
        vec![QueuedMessage::new(b"no time"); usize::try_from(DEAD_LETTERS_OF_SCAN).expect("a number")];
    world.queues.publish_all("crm.dead", &timeless).await;
    world.queues.publish_all("crm.dead", &[letter(40)]).await;
    let connectctl = world.connectctl.clone().and("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    let run = connectctl.run(&["retention", "run", "--json"]).await;
    assert_eq!(of(run.json().as_array().expect("a list"), "dead_letters", "removed"), 0);
    assert!(run.errors.contains("a dead-letter queue has more messages that may have expired"), "{run:?}");

    world.set("CONNECT_RETENTION_DEAD_LETTERS", "30d");
    world.add_worker().await;
    eventually("the worker is behind", MAX_WAIT, async || {
        let metrics = world.workers[1].metrics().await;
        // After a scan that ends clean it is some microseconds.
        match metrics.sum("connect_retention_behind_seconds", &[("what", "dead_letters")]) {
            behind if behind > 0.01 => Ok(()),
            behind => Err(format!("{behind} s")),
        }
    })
    .await;
}
