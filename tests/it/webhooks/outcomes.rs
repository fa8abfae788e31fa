//! Every way in which an attempt can fail: it is recorded and retried (D26).

use super::{OutboundWorld, Subscription};
use serde_json::Value;
use std::time::Duration;
use tests::{Authority, Behavior, Receiver, World};
use tokio::net::TcpSocket;

/// `CONNECT_WEBHOOK_TIMEOUT`: longer than any response takes, even on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(3);

/// How an attempt fails.
struct Failure {
    path: &'static str,
    /// Value of the label `outcome` of the metrics.
    outcome: &'static str,
    status: Option<u16>,
    /// What the error begins with.
    error: Option<&'static str>,
    /// What is kept of the response.
    response: Option<String>,
}

/// A failure with a status code.
fn status(path: &'static str, outcome: &'static str, status: u16, response: Option<&str>) -> Failure {
    Failure { path, outcome, status: Some(status), error: None, response: response.map(str::to_owned) }
}

/// A failure without a status code.
fn error(path: &'static str, outcome: &'static str, error: &'static str) -> Failure {
    Failure { path, outcome, status: None, error: Some(error), response: None }
}

/// Receivers that fail once and then succeed.
fn once(elsewhere: &Receiver) -> Vec<(Behavior, Failure)> {
    let body = |status| Behavior::status(status).with_body(format!("{status}{}", "y".repeat(5_000)));
    let kib = |begin: &str, filler: &str| format!("{begin}{}", filler.repeat(1_024 - begin.len()));
    let with_response = [
        (Behavior::redirect(&elsewhere.url("/302")), status("/302", "redirect", 302, None)),
        (
            Behavior::status(307).with_header("location", &elsewhere.url("/307")),
            status("/307", "redirect", 307, None),
        ),
        (
            Behavior::status(404).with_body("no such h\u{f6}\0k"),
            status("/404", "client_error", 404, Some("no such h\u{f6}\u{fffd}k")),
        ),
        (Behavior::status(410), status("/410", "client_error", 410, None)),
        (body(500), status("/500", "server_error", 500, Some(&kib("500", "y")))),
        (Behavior::status(101), status("/101", "other_status", 101, None)),
        (Behavior::EndlessBody(503), status("/endless-body", "server_error", 503, Some(&kib("", "x")))),
        (Behavior::StalledBody(400), status("/stalled-body", "client_error", 400, Some("the begin"))),
    ];
    let without_response = [
        (Behavior::Silent, error("/silent", "timeout", "no status within 3s")),
        (
            Behavior::SlowHead(200, Duration::from_millis(50)),
            error("/slow-head", "timeout", "no status within 3s"),
        ),
        (
            Behavior::EndlessHead(200),
            error("/endless-head", "connection_lost", "the response's head is too large"),
        ),
        (
            Behavior::Garbage("SSH-2.0-OpenSSH_9.2\r\n".into()),
            error("/garbage", "connection_lost", "the response is not HTTP/1.1"),
        ),
        (Behavior::Reset, error("/reset", "connection_lost", "connection lost: ")),
        (Behavior::Close, error("/close", "connection_lost", "the connection was closed before a response")),
    ];
    with_response.into_iter().chain(without_response).collect()
}

/// Checks the record of a failed attempt.
#[track_caller]
fn assert_failed(attempt: &Value, failure: &Failure) {
    let path = failure.path;
    assert_eq!(attempt["status"].as_u64(), failure.status.map(u64::from), "{path}: {attempt}");
    match (failure.error, attempt["error"].as_str()) {
        (None, None) => {}
        (Some(expected), Some(found)) if found.starts_with(expected) => {}
        (expected, found) => panic!("{path}: {found:?} instead of {expected:?}"),
    }
    assert_eq!(attempt["response"].as_str(), failure.response.as_deref(), "{path}");
    let (took, all) = (attempt["duration_ms"].as_u64().unwrap_or_default(), TIMEOUT.as_millis() as u64);
    // Those that time out take all of the time, the others less.
    assert_eq!(took >= all, failure.outcome == "timeout", "{path}: {attempt}");
    assert!(took < all + 10_000, "{path}: {attempt}");
}

/// Checks that the dispatcher has counted exactly these outcomes.
async fn assert_counted(outbound: &OutboundWorld, mut outcomes: Vec<&str>) {
    let metrics = outbound.world.dispatchers[0].metrics().await;
    outcomes.sort_unstable();
    for outcome in &outcomes {
        let expected = outcomes.iter().filter(|other| *other == outcome).count();
        let found = metrics.sum("connect_webhook_attempts_total", &[("outcome", outcome)]);
        assert_eq!(found, expected as f64, "{outcome}");
    }
    let all = outcomes.len() as f64;
    assert_eq!(metrics.sum("connect_webhook_attempts_total", &[]), all);
    assert_eq!(metrics.sum("connect_webhook_attempt_duration_seconds_count", &[]), all);
}

#[tokio::test]
async fn a_failed_attempt_is_recorded_with_its_cause_and_retried() {
    let outbound = OutboundWorld::start_with(World::with().set("CONNECT_WEBHOOK_TIMEOUT", "3s")).await;
    let elsewhere = Receiver::https(&outbound.authority);
    let mut subscribed: Vec<(Failure, Subscription)> = Vec::new();
    for (behavior, failure) in once(&elsewhere) {
        outbound.receiver.respond_to_next(failure.path, [behavior]);
        let subscription = outbound.subscribe(failure.path, &[]).await;
        subscribed.push((failure, subscription));
    }
    outbound.open_lead().await;
    outbound.until_settled().await;
    for (failure, subscription) in &subscribed {
        let attempts = outbound.attempts(subscription).await;
        let [failed, delivered] = &attempts[..] else { panic!("{}: {attempts:?}", failure.path) };
        assert_failed(failed, failure);
        assert_eq!(
            (&delivered["status"], &delivered["error"], &delivered["response"]),
            (&204.into(), &Value::Null, &Value::Null)
        );
        let [first, second] = &outbound.receiver.received_at(failure.path)[..] else {
            panic!("two requests of {}", failure.path)
        };
        assert_eq!(
            (first.verify(&subscription.secret), second.verify(&subscription.secret)),
            (Ok(()), Ok(()))
        );
        assert_eq!(first.body, second.body);
    }
    let early = "SELECT count(*) FROM attempts a JOIN deliveries d USING (tenant_id, delivery_id) WHERE a.at < d.created_at";
    assert_eq!(outbound.world.database.count(early).await, 0, "no attempt is earlier than its delivery");
    assert_eq!(elsewhere.accepted(), 0, "redirects are not followed");
    outbound.until_deliveries("delivered", subscribed.len() as i64).await;
    let failed = subscribed.iter().map(|(failure, _)| failure.outcome);
    assert_counted(&outbound, failed.chain(subscribed.iter().map(|_| "delivered")).collect()).await;
    outbound
        .until_metric("connect_webhook_retries_total", &[("attempt", "2")], subscribed.len() as f64)
        .await;
    assert_eq!(outbound.world.dispatchers[0].metrics().await.sum("connect_webhook_dead_total", &[]), 0.0);
}

#[tokio::test]
async fn deliveries_to_an_unreachable_receiver_are_retried_until_dead() {
    let settings = World::with().set("CONNECT_WEBHOOK_TIMEOUT", "3s").set("CONNECT_WEBHOOK_ATTEMPTS", "2");
    let outbound = OutboundWorld::start_with(settings).await;
    let authority = &outbound.authority;
    // Bound but not listening, so that no other program can use the port meanwhile.
    let closed = TcpSocket::new_v4().expect("a socket");
    closed.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let closed_url = format!("https://{}/closed", closed.local_addr().expect("its address"));
    let (stranger, misnamed) =
        (Receiver::https(&Authority::new()), Receiver::https_for(authority, &["elsewhere.example"]));
    let (silent, plain) = (Receiver::https(authority), Receiver::http());
    silent.ignore_new_connections();
    let cases = [
        (closed_url, error("refused", "connect_failed", "cannot connect to 127.0.0.1:")),
        (
            stranger.url_by_name("/"),
            error(
                "wrong authority",
                "tls_failed",
                "TLS: the server's certificate is not signed by a trusted ",
            ),
        ),
        (
            misnamed.url_by_name("/"),
            error("wrong name", "tls_failed", "TLS: the server's certificate is not valid for "),
        ),
        (silent.url("/"), error("silent in TLS", "timeout", "no ")),
        (plain.url("/").replace("http:", "https:"), error("no TLS", "timeout", "no ")),
    ];
    let mut subscribed = Vec::new();
    for (url, failure) in cases {
        subscribed.push((failure, outbound.subscribe_url(&url, &[]).await));
    }
    outbound.open_lead().await;
    outbound.until_deliveries("dead", subscribed.len() as i64).await;
    for (failure, subscription) in &subscribed {
        let attempts = outbound.attempts(subscription).await;
        assert_eq!(attempts.len(), 2, "{}: {attempts:?}", failure.path);
        attempts.iter().for_each(|attempt| assert_failed(attempt, failure));
    }
    for receiver in [&stranger, &misnamed, &silent, &plain] {
        assert_eq!((receiver.count(), receiver.accepted()), (0, 2));
    }
    let outcomes = subscribed.iter().flat_map(|(failure, _)| [failure.outcome; 2]).collect();
    assert_counted(&outbound, outcomes).await;
    outbound.until_metric("connect_webhook_dead_total", &[], subscribed.len() as f64).await;
    outbound.world.until_depth("webhooks.dead", subscribed.len() as u32).await;
}

#[tokio::test]
async fn any_2xx_is_delivered_whatever_its_body() {
    let outbound = OutboundWorld::shared().await;
    let cases = [
        ("/200", Behavior::status(200).with_body("thanks"), 200),
        ("/202", Behavior::status(202), 202),
        ("/299", Behavior::status(299), 299),
        ("/endless-body", Behavior::EndlessBody(200), 200),
        ("/stalled-body", Behavior::StalledBody(201), 201),
    ];
    let mut subscribed = Vec::new();
    for (path, behavior, status) in cases {
        outbound.receiver.respond(path, behavior);
        subscribed.push((path, status, outbound.subscribe(path, &[]).await));
    }
    outbound.open_lead().await;
    outbound.until_deliveries("delivered", subscribed.len() as i64).await;
    for (path, status, subscription) in &subscribed {
        let attempts = outbound.attempts(subscription).await;
        assert_eq!(attempts.len(), 1, "{path}: {attempts:?}");
        let attempt = &attempts[0];
        assert_eq!(
            (attempt["status"].as_i64(), &attempt["response"]),
            (Some(*status), &Value::Null),
            "{path}"
        );
        assert_eq!(outbound.receiver.received_at(path).len(), 1, "{path}");
    }
}
