//! A failed attempt is recorded with its cause and retried (D26). `dispatcher/src/send/tests` has every way in which an attempt can
//! fail.

use super::OutboundWorld;
use serde_json::{Value, json};
use tests::{Behavior, Receiver, World};

#[tokio::test]
async fn a_failed_attempt_is_recorded_with_its_cause_and_retried() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", "3s")).await;
    let elsewhere = Receiver::https(&outbound.authority);
    let kept = format!("500{}", "y".repeat(1_021));
    let cases = [
        ("/302", Behavior::redirect(&elsewhere.url("/302")), "redirect", json!(302), None, json!(null)),
        (
            "/500",
            Behavior::status(500).with_body(format!("500{}", "y".repeat(5_000))),
            "server_error",
            json!(500),
            None,
            json!(kept),
        ),
        ("/silent", Behavior::Silent, "timeout", json!(null), Some("no status within 3s"), json!(null)),
        ("/reset", Behavior::Reset, "connection_lost", json!(null), Some("connection lost: "), json!(null)),
    ];
    let mut subscribed = Vec::new();
    for (path, behavior, ..) in &cases {
        outbound.receiver.respond_to_next(path, [behavior.clone()]);
        subscribed.push(outbound.subscribe(path, &[]).await);
    }
    outbound.open_lead().await;
    outbound.until_deliveries("delivered", subscribed.len() as i64).await;
    let metrics = outbound.world.dispatchers[0].metrics().await;
    for ((path, _, outcome, status, error, response), subscription) in cases.iter().zip(&subscribed) {
        let attempts = outbound.attempts(subscription).await;
        let [failed, delivered] = &attempts[..] else { panic!("{path}: {attempts:?}") };
        assert_eq!((&failed["status"], &failed["response"]), (status, response), "{path}: {failed}");
        let begin = error.unwrap_or_default();
        assert!(failed["error"].as_str().unwrap_or_default().starts_with(begin), "{path}: {failed}");
        assert_eq!(failed["error"].is_null(), error.is_none(), "{path}: {failed}");
        assert_eq!((&delivered["status"], &delivered["error"]), (&json!(204), &Value::Null), "{path}");
        let [first, second] = &outbound.receiver.received_at(path)[..] else {
            panic!("two requests of {path}")
        };
        assert_eq!(first.body, second.body);
        let counted = metrics.sum("connect_webhook_attempts_total", &[("outcome", outcome)]);
        assert_eq!(counted, 1.0, "{outcome}");
    }
    assert_eq!(elsewhere.accepted(), 0, "redirects are not followed");
    outbound.until_metric("connect_webhook_retries_total", &[("attempt", "2")], 4.0).await;
}
