//! Every way in which an attempt fails, and what is recorded about it (D26).

use super::*;

/// One attempt to a receiver with this behavior.
async fn attempt(timeout: Duration, behavior: Behavior) -> (Attempt, Receiver) {
    let receiver = Receiver::http();
    receiver.respond_to_all(behavior);
    let attempt = send(&local(timeout), &receiver.url("/")).await;
    (attempt, receiver)
}

/// The outcome and the error of an attempt without a status.
async fn failure(timeout: Duration, behavior: Behavior) -> (Outcome, String) {
    let (attempt, receiver) = attempt(timeout, behavior).await;
    // After every failure the connection is closed and not reused.
    receiver.wait_for_connections(0).await;
    without_status(attempt)
}

#[track_caller]
fn without_status(attempt: Attempt) -> (Outcome, String) {
    let nothing = (attempt.status, attempt.response, attempt.retry_after);
    assert_eq!(nothing, (None, None, None));
    (attempt.outcome, attempt.error.unwrap())
}

#[tokio::test]
async fn the_status_code_determines_the_outcome() {
    for (outcome, statuses) in [
        (Outcome::OtherStatus, &[101, 600][..]),
        (Outcome::Delivered, &[200, 202, 299]),
        (Outcome::Redirect, &[300, 304]),
        (Outcome::ClientError, &[400, 410]),
        (Outcome::ServerError, &[500, 599]),
    ] {
        for &status in statuses {
            let (attempt, _receiver) = attempt(LONG, Behavior::status(status)).await;
            assert_eq!((attempt.outcome, attempt.status), (outcome, Some(status)));
            assert_eq!((attempt.error, attempt.response, attempt.retry_after), (None, None, None));
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::http();
    let to = elsewhere.url("/");
    for status in [301, 302, 303, 307, 308] {
        let (attempt, receiver) = attempt(LONG, Behavior::status(status).with_header("location", &to)).await;
        assert_eq!((attempt.outcome, receiver.count()), (Outcome::Redirect, 1));
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test]
async fn the_first_kib_of_a_failed_attempts_body_is_kept() {
    let (refused, _) = attempt(LONG, Behavior::status(422).with_body("no\0 such \u{e9}vent")).await;
    assert_eq!(refused.response.as_deref(), Some("no\u{fffd} such \u{e9}vent"));
    let (long, _) = attempt(LONG, Behavior::status(500).with_body("x".repeat(3_000))).await;
    assert_eq!(long.response, Some("x".repeat(1_024)));
    let (delivered, _) = attempt(LONG, Behavior::status(200).with_body("thanks")).await;
    assert_eq!(delivered.response, None);
}

#[tokio::test]
async fn uses_retry_after_of_429_and_503() {
    let asking = |status| Behavior::status(status).with_header("retry-after", "120");
    for (status, wait) in [(429, Some(120)), (503, Some(120)), (500, None), (301, None)] {
        let (attempt, _) = attempt(LONG, asking(status)).await;
        assert_eq!(attempt.retry_after, wait.map(Duration::from_secs), "{status}");
    }
}

#[tokio::test]
async fn does_not_wait_for_the_end_of_an_endless_body() {
    let (delivered, receiver) = attempt(LONG, Behavior::EndlessBody(200)).await;
    assert_eq!(delivered.outcome, Outcome::Delivered);
    receiver.wait_for_connections(0).await;
    let (failed, receiver) = attempt(LONG, Behavior::EndlessBody(503)).await;
    assert_eq!((failed.outcome, failed.status), (Outcome::ServerError, Some(503)));
    assert_eq!(failed.response, Some("x".repeat(1_024)));
    receiver.wait_for_connections(0).await;
}

#[tokio::test]
async fn a_stalled_body_does_not_delay_a_delivery_and_delays_a_failure_briefly() {
    let (delivered, receiver) = attempt(LONG, Behavior::StalledBody(200)).await;
    // When the attempt has ended, its connection is still open, so that it can be reused if the body arrives.
    assert_eq!((delivered.outcome, receiver.connections()), (Outcome::Delivered, 1));
    receiver.wait_for_connections(0).await;
    let stalled = attempt(LONG * 100, Behavior::StalledBody(400));
    let (failed, receiver) = tokio::time::timeout(LONG, stalled).await.unwrap();
    assert_eq!((failed.outcome, failed.response.as_deref()), (Outcome::ClientError, Some("the begin")));
    receiver.wait_for_connections(0).await;
}

#[tokio::test]
async fn no_status_in_time_is_a_timeout() {
    for never in [Behavior::Silent, Behavior::status(200).after(LONG)] {
        let what = format!("{never:?}");
        let seen = failure(SHORT, never).await;
        assert_eq!(seen, (Outcome::Timeout, "no status within 250ms".to_owned()), "{what}");
    }
}

#[tokio::test]
async fn the_timeout_includes_connecting_and_the_tls_handshake() {
    let authority = Authority::new();
    let receiver = Receiver::https(&authority);
    receiver.ignore_new_connections();
    let attempt = send(&trusting(&authority, SHORT), &receiver.url("/")).await;
    assert_eq!(without_status(attempt).0, Outcome::Timeout);
    receiver.wait_for_connections(0).await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_a_status_is_lost() {
    for (behavior, text) in [
        (Behavior::Reset, "connection lost: Connection reset by peer"),
        (Behavior::Close, "the connection was closed before a response"),
        (Behavior::Garbage("SSH-2.0-OpenSSH_9.2\r\n".into()), "the response is not HTTP/1.1"),
        (Behavior::Garbage("HTTP/1.1 2x0 OK\r\n\r\n".into()), "the response is not HTTP/1.1"),
        (Behavior::Garbage("HTTP/1.1 2000 OK\r\n\r\n".into()), "the response is not HTTP/1.1"),
        (Behavior::Garbage("HTTP/1.1 103 A\r\n\r\nHTTP/1.1 2x0 OK\r\n\r\n".into()), "the response is not HTTP/1.1"),
        (Behavior::Garbage("HTTP/1.1 103 A\r\n\r\n".into()), "the connection was closed before"),
    ] {
        let what = format!("{behavior:?}");
        let (outcome, error) = failure(LONG, behavior).await;
        assert_eq!(outcome, Outcome::ConnectionLost, "{what}: {error}");
        assert!(error.starts_with(text), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_status_counts_however_large_or_malformed_its_head_is() {
    let lines = |count: usize, value: &str| -> String { (0..count).map(|n| format!("x-{n}: {value}\r\n")).collect() };
    let heads = [
        &lines(101, "x"),
        &lines(10, &"x".repeat(2_000)),
        &lines(600, "x"),
        &lines(2, &"x".repeat(100_000)),
        "content-length: 1\r\n",
        "content-length: abc\r\n",
        "content-length: -1\r\n",
    ];
    let early = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    for (head, before) in heads.into_iter().flat_map(|head| [(head, ""), (head, early)]) {
        for (status, outcome) in [(200, Outcome::Delivered), (503, Outcome::ServerError)] {
            let response = format!("{before}HTTP/1.1 {status} OK\r\n{head}content-length: 0\r\n\r\n");
            let (attempt, _receiver) = attempt(LONG, Behavior::Garbage(response.into())).await;
            assert_eq!((attempt.outcome, attempt.status, attempt.error), (outcome, Some(status), None), "{head}");
        }
    }
    for unfinished in [
        Behavior::EndlessHead(200),
        Behavior::Garbage("HTTP/1.1 200 OK\r\ncontent-le".into()),
        Behavior::SlowHead(200, SHORT),
    ] {
        let (attempt, receiver) = attempt(SHORT, unfinished).await;
        assert_eq!((attempt.outcome, attempt.status), (Outcome::Delivered, Some(200)));
        receiver.wait_for_connections(0).await;
    }
}

#[tokio::test]
async fn a_status_does_not_count_for_the_next_request_of_its_connection() {
    let receiver = Receiver::http();
    let sender = local(SHORT);
    assert_eq!(send(&sender, &receiver.url("/")).await.outcome, Outcome::Delivered);
    receiver.respond("/", Behavior::Silent);
    assert_eq!(send(&sender, &receiver.url("/")).await.outcome, Outcome::Timeout);
}

#[tokio::test]
async fn a_reset_before_the_request_is_a_connection_failure() {
    let receiver = Receiver::http();
    receiver.reset_new_connections();
    let (outcome, error) = without_status(send(&local(LONG), &receiver.url("/")).await);
    // Which step fails depends on the operating system.
    assert!(matches!(outcome, Outcome::ConnectionLost | Outcome::ConnectFailed), "{error}");
}

#[tokio::test]
async fn connecting_fails_where_nothing_listens() {
    let url = Receiver::http().url("/");
    let (outcome, error) = without_status(send(&local(LONG), &url).await);
    assert_eq!(outcome, Outcome::ConnectFailed);
    assert!(error.starts_with("cannot connect to 127.0.0.1:") && error.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_does_not_resolve() {
    let (outcome, error) = without_status(send(&local(LONG), "https://nowhere.invalid/").await);
    assert_eq!(outcome, Outcome::NotResolved);
    assert!(error.starts_with("host does not resolve: "), "{error}");
}

#[tokio::test]
async fn sends_nothing_when_the_certificate_is_invalid() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (receiver, text) in [
        (
            Receiver::https(&stranger),
            "TLS: the server's certificate is not signed by a trusted authority; set CONNECT_WEBHOOK_CA_FILE",
        ),
        (Receiver::https_for(&authority, &["elsewhere.example"]), "TLS: the server's certificate is not valid for "),
    ] {
        let attempt = send(&trusting(&authority, LONG), &receiver.url_by_name("/")).await;
        let (outcome, error) = without_status(attempt);
        assert_eq!(outcome, Outcome::TlsFailed, "{error}");
        assert!(error.starts_with(text), "{error}");
        assert_eq!(receiver.count(), 0);
    }
}

#[tokio::test]
async fn a_receiver_without_tls_fails() {
    let plain = Receiver::http();
    let url = plain.url("/").replace("http://", "https://");
    // It waits for the end of a request that never comes.
    assert_eq!(without_status(send(&local(SHORT), &url).await).0, Outcome::Timeout);
    let resetting = Receiver::https(&Authority::new());
    resetting.reset_new_connections();
    let (outcome, error) = without_status(send(&local(LONG), &resetting.url("/")).await);
    // Which step fails depends on the operating system.
    assert!(matches!(outcome, Outcome::TlsFailed | Outcome::ConnectFailed), "{error}");
}
