//! Dead letters that an operator replays (specification: Delivery rules 2; D26).

use super::{OutboundWorld, Subscription};
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::{Behavior, ReceivedRequest, World, event, text};

/// With waits so short that six failures take one and a half seconds.
async fn start() -> OutboundWorld {
    OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_BACKOFF_BASE", "50ms")).await
}

impl OutboundWorld {
    /// Runs `delivery replay` with these arguments and returns what it prints.
    async fn replay(&self, words: &[&str]) -> Value {
        self.world.connectctl.json(&[&["delivery", "replay"], words].concat()).await
    }

    /// Waits until `count` deliveries are dead.
    async fn until_dead_lettered(&self, count: i64) {
        self.until_deliveries("dead", count).await;
    }

    /// The only delivery to a subscription, as `delivery show` shows it.
    async fn shown(&self, subscription: &Subscription) -> Value {
        let [delivery] = &self.deliveries(subscription).await[..] else { panic!("one delivery") };
        self.world.connectctl.json(&["delivery", "show", text(&delivery["id"])]).await
    }
}

fn statuses(shown: &Value) -> Vec<i64> {
    let attempts = shown["attempts"].as_array().expect("attempts");
    attempts.iter().filter_map(|attempt| attempt["status"].as_i64()).collect()
}

fn ids(received: &[ReceivedRequest]) -> HashSet<(String, String)> {
    let id = |webhook: &ReceivedRequest| text(&webhook.json()["eventId"]).to_owned();
    received.iter().map(|webhook| (id(webhook), webhook.header("x-connect-delivery").to_owned())).collect()
}

#[tokio::test]
async fn a_replayed_dead_letter_gets_six_more_attempts_with_the_same_ids() {
    let outbound = start().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.respond("/hooks", Behavior::status(500).with_body("not today"));
    outbound.open_lead().await;
    outbound.until_dead_lettered(1).await;
    let shown = outbound.shown(&subscription).await;
    assert_eq!((text(&shown["state"]), statuses(&shown)), ("dead", vec![500; 6]));
    assert_eq!((&shown["eventType"], &shown["nextAttemptAt"]), (&json!("lead.assigned"), &Value::Null));
    assert_eq!(shown["attempts"][0]["response"], "not today");

    let id = text(&shown["id"]);
    assert_eq!(outbound.replay(&[id]).await["id"], shown["id"]);
    outbound.receiver.wait_for(12).await;
    outbound.until_dead_lettered(1).await;

    outbound.receiver.respond_to_next("/hooks", [500, 500, 500, 500, 500, 200].map(Behavior::status));
    outbound.replay(&[id]).await;
    outbound.until_deliveries("delivered", 1).await;
    let shown = outbound.shown(&subscription).await;
    assert_eq!(statuses(&shown), [vec![500; 17], vec![200]].concat());
    let received = outbound.receiver.received();
    assert_eq!((received.len(), ids(&received).len()), (18, 1));
    assert_eq!(received[0].header("x-connect-delivery"), id);
    assert!(received.iter().all(|webhook| webhook.verify(&subscription.secret).is_ok()));
    outbound.until_metric("connect_webhook_dead_total", &[], 2.0).await;
    outbound.until_metric("connect_webhook_retries_total", &[("attempt", "6")], 3.0).await;
}

#[tokio::test]
async fn replays_all_dead_letters_of_one_tenant_only() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_ATTEMPTS", "1")).await;
    let world = &outbound.world;
    let zeta = world.add_tenant("zeta").await;
    let add = ["member", "add", "--tenant", "zeta", "--email", "asha@acme.test", "--name", "Asha"];
    world.connectctl.json(&add).await;
    let url = outbound.receiver.url_by_name("/zeta");
    outbound.subscribe_of("zeta", &url, &[]).await;
    for path in ["/failing", "/also-failing", "/well"] {
        outbound.subscribe(path, &[]).await;
    }
    for path in ["/failing", "/also-failing", "/zeta"] {
        outbound.receiver.respond(path, Behavior::status(500));
    }
    for _ in 0..2 {
        outbound.open_lead().await;
    }
    let enquiry = event("enquiry.submitted").email("ana@example.com").tenant("zeta");
    world.http().send(&zeta.events(tests::event::batch(&[enquiry]))).await;
    outbound.until_dead_lettered(5).await;
    let dead = outbound.take_received().await;

    outbound.receiver.respond_to_all(Behavior::status(200));
    for path in ["/failing", "/also-failing", "/zeta"] {
        outbound.receiver.respond(path, Behavior::status(200));
    }
    assert_eq!(outbound.replay(&["--dead", "--tenant", "acme"]).await, json!({"matched": 4, "replayed": 4}));
    outbound.until_deliveries("delivered", 6).await;
    let again = outbound.take_received().await;
    let failed: Vec<ReceivedRequest> =
        dead.into_iter().filter(|webhook| !["/well", "/zeta"].contains(&webhook.path())).collect();
    assert_eq!((again.len(), ids(&again)), (4, ids(&failed)));
    outbound.until_dead_lettered(1).await;
    assert_eq!(outbound.replay(&["--dead", "--tenant", "acme"]).await, json!({"matched": 0, "replayed": 0}));
}

#[tokio::test]
async fn replays_a_time_range_including_delivered_ones() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_ATTEMPTS", "1")).await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.respond_to_next("/hooks", [200, 500, 200, 500].map(Behavior::status));
    let mut times = Vec::new();
    for _ in 0..4 {
        times.push(common::clock::now().to_rfc3339());
        outbound.open_lead().await;
        outbound.until_settled().await;
    }
    outbound.until_dead_lettered(2).await;
    let before = outbound.take_received().await;
    let range = ["--tenant", "acme", "--from", &times[1], "--to", &times[3]];
    assert_eq!(outbound.replay(&range).await, json!({"matched": 2, "replayed": 2}));
    let again = outbound.take_received().await;
    assert_eq!((again.len(), ids(&again)), (2, ids(&before[1..3])));
    assert!(again.iter().all(|webhook| webhook.verify(&subscription.secret).is_ok()));
    assert_eq!((outbound.count("delivered").await, outbound.count("dead").await), (3, 1));
}
