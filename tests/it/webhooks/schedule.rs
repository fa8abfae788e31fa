//! When a delivery is retried, dead-lettered and replayed by an operator (specification: Delivery rules; D26).
//! `dispatcher/src/send/tests` has every way in which an attempt can fail.

use super::{OutboundWorld, Subscription};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::time::Duration;
use tests::{Behavior, ReceivedRequest, Receiver, World, text};

/// Longer than any schedule here.
const LONG: Duration = Duration::from_secs(60);

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// Checks the waits between requests: each at least what the schedule says.
#[track_caller]
fn assert_waits(received: &[ReceivedRequest], expected: &[Duration]) {
    let waits: Vec<Duration> = received.windows(2).map(|pair| pair[1].at - pair[0].at).collect();
    assert_eq!(waits.len(), expected.len(), "{waits:?}");
    for (wait, expected) in waits.iter().zip(expected) {
        assert!(wait >= expected, "{waits:?} instead of {expected:?}");
    }
}

/// `t` of a request's signature.
fn signed_at(webhook: &ReceivedRequest) -> i64 {
    let signature = webhook.header("x-connect-signature");
    let t = signature.split_once(',').and_then(|(t, _)| t.strip_prefix("t="));
    t.and_then(|t| t.parse().ok()).unwrap_or_else(|| panic!("no t: {signature}"))
}

/// Checks that these are attempts of one delivery, each with its own signature.
#[track_caller]
fn assert_one_delivery(received: &[ReceivedRequest], subscription: &Subscription) {
    let first = &received[0];
    let mut signatures = HashSet::new();
    let mut times = HashSet::new();
    for webhook in received {
        assert_eq!(webhook.verify(&subscription.secret), Ok(()));
        assert_eq!(webhook.header("x-connect-delivery"), first.header("x-connect-delivery"));
        assert_eq!(webhook.body, first.body, "the same event, byte by byte");
        signatures.insert(webhook.header("x-connect-signature").to_owned());
        times.insert(signed_at(webhook));
    }
    assert_eq!(signatures.len(), times.len(), "one signature for each second");
    let (first, last) = (&received[0], &received[received.len() - 1]);
    let passed = i64::try_from((last.at - first.at).as_secs()).expect("a short time");
    assert!(signed_at(last) - signed_at(first) >= passed, "signed when it is sent");
}

#[tokio::test]
async fn makes_six_attempts_with_doubling_waits_and_then_dead_letters() {
    let settings = World::with().set("CONNECT_WEBHOOK_BACKOFF_BASE", "300ms");
    let mut outbound = OutboundWorld::start_with(settings).await;
    let subscription = outbound.subscribe("/failing", &[]).await;
    outbound.receiver.respond("/failing", Behavior::status(500).with_body("not today"));
    outbound.open_lead().await;
    outbound.receiver.wait_for_within(LONG, 6).await;
    outbound.until_deliveries("dead", 1).await;

    let received = outbound.receiver.received();
    assert_waits(&received, &[ms(300), ms(600), ms(1_200), ms(2_400), ms(4_800)]);
    assert_one_delivery(&received, &subscription);
    let attempts = outbound.attempts(&subscription).await;
    let seen: Vec<_> =
        attempts.iter().map(|attempt| (attempt["attempt"].as_i64(), attempt["status"].as_i64())).collect();
    assert_eq!(seen, (1..=6).map(|number| (Some(number), Some(500))).collect::<Vec<_>>());

    for attempt in ["2", "3", "4", "5", "6"] {
        outbound.until_metric("connect_webhook_retries_total", &[("attempt", attempt)], 1.0).await;
    }
    outbound.until_metric("connect_webhook_retries_total", &[], 5.0).await;
    outbound.until_metric("connect_webhook_dead_total", &[], 1.0).await;
    outbound.until_metric("connect_webhook_deliveries", &[("state", "dead")], 1.0).await;
    outbound.world.until_depth("webhooks.dead", 1).await;
    assert_stays_dead(&mut outbound, 6).await;
    let letter = outbound.world.queues.take("webhooks.dead").await.expect("a dead letter");
    let notice: serde_json::Value = serde_json::from_slice(&letter.body).expect("JSON");
    let expected = (&json!(received[0].header("x-connect-delivery")), &json!("status 500"));
    assert_eq!((&notice["deliveryId"], &notice["reason"]), expected);
    let text = String::from_utf8_lossy(&letter.body).into_owned();
    assert!(!text.contains("ana") && !text.contains("not today"), "no personal data: {text}");
}

/// Checks that a dead delivery is not sent again, neither by another dispatcher nor beside other deliveries.
async fn assert_stays_dead(outbound: &mut OutboundWorld, sent: usize) {
    assert_eq!(outbound.world.dispatchers[0].terminate().await.code(), Some(0));
    outbound.world.restart_dispatcher().await;
    outbound.receiver.respond("/failing", Behavior::status(204));
    outbound.open_lead_until("delivered", 1).await;
    assert_eq!(outbound.receiver.count(), sent + 1);
    assert_eq!((outbound.count("dead").await, outbound.count("pending").await), (1, 0));
}

#[tokio::test]
async fn retry_after_lengthens_a_wait_to_the_second_up_to_the_cap() {
    let settings = World::with().set("CONNECT_WEBHOOK_BACKOFF_BASE", "200ms").set("CONNECT_WEBHOOK_BACKOFF_CAP", "6s");
    let outbound = OutboundWorld::start_with(settings).await;
    let ask = |status, time: &str| Behavior::status(status).with_header("retry-after", time);
    let cases = [
        ("/429", vec![ask(429, "1")], vec![ms(1_000)]),
        ("/503", vec![ask(503, "2")], vec![ms(2_000)]),
        ("/then-as-usual", vec![ask(429, "1"), Behavior::status(500)], vec![ms(1_000), ms(400)]),
        ("/longer-than-the-cap", vec![ask(503, "86400")], vec![ms(6_000)]),
        ("/shorter-than-due", vec![ask(503, "0"), ask(429, "0")], vec![ms(200), ms(400)]),
        ("/not-for-us", vec![ask(500, "86400"), ask(302, "86400")], vec![ms(200), ms(400)]),
    ];
    let mut subscribed = Vec::new();
    for (path, behaviors, waits) in cases {
        outbound.receiver.respond_to_next(path, behaviors);
        subscribed.push((path, waits, outbound.subscribe(path, &[]).await));
    }
    outbound.open_lead().await;
    outbound.until_deliveries_within(LONG, "delivered", subscribed.len() as i64).await;
    for (path, waits, subscription) in &subscribed {
        let received = outbound.receiver.received_at(path);
        assert_waits(&received, waits);
        assert_one_delivery(&received, subscription);
    }
}

#[tokio::test]
async fn a_failed_attempt_is_recorded_with_its_cause_and_retried() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", "3s")).await;
    let elsewhere = Receiver::https(&outbound.authority);
    let [kept, long] = [1_021, 5_000].map(|more| format!("500{}", "y".repeat(more)));
    let cases = [
        ("/302", Behavior::redirect(&elsewhere.url("/302")), "redirect", json!(302), None, json!(null)),
        ("/500", Behavior::status(500).with_body(long), "server_error", json!(500), None, json!(kept)),
        ("/silent", Behavior::Silent, "timeout", json!(null), Some("no status within 3s"), json!(null)),
        ("/reset", Behavior::Reset, "connection_lost", json!(null), Some("connection lost: "), json!(null)),
    ];
    let mut subscribed = Vec::new();
    for (path, behavior, ..) in &cases {
        outbound.receiver.respond_to_next(path, [behavior.clone()]);
        subscribed.push(outbound.subscribe(path, &[]).await);
    }
    outbound.open_lead_until("delivered", subscribed.len() as i64).await;
    let metrics = outbound.world.dispatchers[0].metrics().await;
    for ((path, _, outcome, status, error, response), subscription) in cases.iter().zip(&subscribed) {
        let attempts = outbound.attempts(subscription).await;
        let [failed, delivered] = &attempts[..] else { panic!("{path}: {attempts:?}") };
        assert_eq!((&failed["status"], &failed["response"]), (status, response), "{path}: {failed}");
        let begin = error.unwrap_or_default();
        assert!(failed["error"].as_str().unwrap_or_default().starts_with(begin), "{path}: {failed}");
        assert_eq!(failed["error"].is_null(), error.is_none(), "{path}: {failed}");
        assert_eq!((&delivered["status"], &delivered["error"]), (&json!(204), &Value::Null), "{path}");
        let [first, second] = &outbound.receiver.received_at(path)[..] else { panic!("two requests of {path}") };
        assert_eq!(first.body, second.body);
        assert_eq!(metrics.sum("connect_webhook_attempts_total", &[("outcome", outcome)]), 1.0, "{outcome}");
    }
    assert_eq!(elsewhere.accepted(), 0, "redirects are not followed");
    outbound.until_metric("connect_webhook_retries_total", &[("attempt", "2")], 4.0).await;
}

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
    outbound.open_lead_until("dead", 1).await;
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
