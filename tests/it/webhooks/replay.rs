//! A dead letter that an operator replays (specification: Delivery rules 2; D26).

use super::{OutboundWorld, Subscription};
use serde_json::{Value, json};
use tests::{Behavior, World, text};

impl OutboundWorld {
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

#[tokio::test]
async fn a_replayed_dead_letter_gets_six_more_attempts_with_the_same_ids() {
    // With waits so short that six failures take one and a half seconds.
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_BACKOFF_BASE", "50ms")).await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    outbound.receiver.respond("/hooks", Behavior::status(500).with_body("not today"));
    outbound.open_lead().await;
    outbound.until_deliveries("dead", 1).await;
    let shown = outbound.shown(&subscription).await;
    assert_eq!((text(&shown["state"]), statuses(&shown)), ("dead", vec![500; 6]));
    assert_eq!((&shown["eventType"], &shown["nextAttemptAt"]), (&json!("lead.assigned"), &Value::Null));
    assert_eq!(shown["attempts"][0]["response"], "not today");

    let id = text(&shown["id"]);
    let replay = async || outbound.world.connectctl.json(&["delivery", "replay", id]).await;
    assert_eq!(replay().await["id"], shown["id"]);
    outbound.receiver.wait_for(12).await;
    outbound.until_deliveries("dead", 1).await;

    outbound.receiver.respond_to_next("/hooks", [500, 500, 500, 500, 500, 200].map(Behavior::status));
    replay().await;
    outbound.until_deliveries("delivered", 1).await;
    let shown = outbound.shown(&subscription).await;
    assert_eq!(statuses(&shown), [vec![500; 17], vec![200]].concat());
    let received = outbound.receiver.received();
    assert_eq!(received.len(), 18);
    for webhook in &received {
        assert_eq!((webhook.header("x-connect-delivery"), &webhook.body), (id, &received[0].body));
        assert!(webhook.verify(&subscription.secret).is_ok());
    }
    outbound.until_metric("connect_webhook_dead_total", &[], 2.0).await;
    outbound.until_metric("connect_webhook_retries_total", &[("attempt", "6")], 3.0).await;
}
