//! Every way in which an attempt fails, and what is put on record of it (D26).

use super::*;

/// One attempt to a receiver that behaves so.
async fn attempt(timeout: Duration, behaviour: Behaviour) -> (Attempt, Receiver) {
    let receiver = Receiver::http();
    receiver.answer_all(behaviour);
    let attempt = send(&local(timeout), &receiver.url("/")).await;
    (attempt, receiver)
}

/// The outcome and the error of an attempt without a status.
async fn failure(timeout: Duration, behaviour: Behaviour) -> (Outcome, String) {
    let (attempt, receiver) = attempt(timeout, behaviour).await;
    // Whatever it was, the connection isn't used again, and nobody keeps it.
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
async fn a_status_decides() {
    for (status, outcome) in [
        (101, Outcome::OtherStatus),
        (200, Outcome::Delivered),
        (202, Outcome::Delivered),
        (299, Outcome::Delivered),
        (300, Outcome::Redirect),
        (304, Outcome::Redirect),
        (400, Outcome::ClientError),
        (410, Outcome::ClientError),
        (500, Outcome::ServerError),
        (599, Outcome::ServerError),
        (600, Outcome::OtherStatus),
    ] {
        let (attempt, _receiver) = attempt(LONG, Behaviour::status(status)).await;
        assert_eq!((attempt.outcome, attempt.status), (outcome, Some(status)));
        assert_eq!((attempt.error, attempt.response, attempt.retry_after), (None, None, None));
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Receiver::http();
    let to = elsewhere.url("/");
    for status in [301, 302, 303, 307, 308] {
        let (attempt, receiver) = attempt(LONG, Behaviour::status(status).with_header("location", &to)).await;
        assert_eq!((attempt.outcome, receiver.count()), (Outcome::Redirect, 1));
    }
    assert_eq!(elsewhere.accepted(), 0);
}

#[tokio::test]
async fn of_a_failed_attempts_body_the_first_kib_is_kept() {
    let (refused, _) = attempt(LONG, Behaviour::status(422).with_body("no\0 such \u{e9}vent")).await;
    assert_eq!(refused.response.as_deref(), Some("no\u{fffd} such \u{e9}vent"));
    let (long, _) = attempt(LONG, Behaviour::status(500).with_body("x".repeat(3_000))).await;
    assert_eq!(long.response, Some("x".repeat(1_024)));
    let (delivered, _) = attempt(LONG, Behaviour::status(200).with_body("thanks")).await;
    assert_eq!(delivered.response, None);
}

#[tokio::test]
async fn a_receiver_that_is_overloaded_says_for_how_long() {
    let asking = |status| Behaviour::status(status).with_header("retry-after", "120");
    for (status, wait) in [(429, Some(120)), (503, Some(120)), (500, None), (301, None)] {
        let (attempt, _) = attempt(LONG, asking(status)).await;
        assert_eq!(attempt.retry_after, wait.map(Duration::from_secs), "{status}");
    }
}

#[tokio::test]
async fn a_body_without_end_is_neither_read_nor_waited_for() {
    let (delivered, receiver) = attempt(LONG, Behaviour::EndlessBody(200)).await;
    assert_eq!(delivered.outcome, Outcome::Delivered);
    receiver.wait_for_connections(0).await;
    let (failed, receiver) = attempt(LONG, Behaviour::EndlessBody(503)).await;
    assert_eq!((failed.outcome, failed.status), (Outcome::ServerError, Some(503)));
    assert_eq!(failed.response, Some("x".repeat(1_024)));
    receiver.wait_for_connections(0).await;
}

#[tokio::test]
async fn a_body_that_stalls_is_waited_for_by_nobody_when_delivered_and_shortly_when_failed() {
    let (delivered, receiver) = attempt(LONG, Behaviour::StalledBody(200)).await;
    // Its connection is still hoped for when the attempt has ended.
    assert_eq!((delivered.outcome, receiver.connections()), (Outcome::Delivered, 1));
    receiver.wait_for_connections(0).await;
    let stalled = attempt(LONG * 100, Behaviour::StalledBody(400));
    let (failed, receiver) = tokio::time::timeout(LONG, stalled).await.unwrap();
    assert_eq!((failed.outcome, failed.response.as_deref()), (Outcome::ClientError, Some("the begin")));
    receiver.wait_for_connections(0).await;
}

#[tokio::test]
async fn no_status_in_time_is_a_timeout() {
    let drip = Behaviour::SlowHead(200, Duration::from_millis(20));
    for never in [Behaviour::Silent, drip, Behaviour::status(200).after(LONG)] {
        let what = format!("{never:?}");
        let seen = failure(SHORT, never).await;
        assert_eq!(seen, (Outcome::Timeout, "no status within 250ms".to_owned()), "{what}");
    }
}

#[tokio::test]
async fn connecting_and_tls_count_into_the_time() {
    let authority = Authority::new();
    let receiver = Receiver::https(&authority);
    receiver.silent_at_the_door();
    let attempt = send(&trusting(&authority, SHORT), &receiver.url("/")).await;
    assert_eq!(without_status(attempt).0, Outcome::Timeout);
    receiver.wait_for_connections(0).await;
}

#[tokio::test]
async fn a_connection_that_breaks_before_a_status_is_lost() {
    for (behaviour, text) in [
        (Behaviour::Reset, "connection lost: Connection reset by peer"),
        (Behaviour::Close, "the connection was closed before a response"),
        (Behaviour::Garbage("SSH-2.0-OpenSSH_9.2\r\n".into()), "the response is not HTTP/1.1"),
        (Behaviour::Garbage("HTTP/1.1 2x0 OK\r\n\r\n".into()), "the response is not HTTP/1.1"),
        (Behaviour::Garbage("HTTP/1.1 200 OK\r\ncontent-le".into()), "the connection was closed before"),
        (Behaviour::EndlessHead(200), "the response's head is too large"),
    ] {
        let what = format!("{behaviour:?}");
        let (outcome, error) = failure(LONG, behaviour).await;
        assert_eq!(outcome, Outcome::ConnectionLost, "{what}: {error}");
        assert!(error.starts_with(text), "{what}: {error}");
    }
}

#[tokio::test]
async fn a_reset_before_the_request_is_lost_as_well() {
    let receiver = Receiver::http();
    receiver.reset_at_the_door();
    let (outcome, error) = without_status(send(&local(LONG), &receiver.url("/")).await);
    // How far it got is for the system to say.
    assert!(matches!(outcome, Outcome::ConnectionLost | Outcome::ConnectFailed), "{error}");
}

#[tokio::test]
async fn where_nothing_listens_connecting_fails() {
    let url = Receiver::http().url("/");
    let (outcome, error) = without_status(send(&local(LONG), &url).await);
    assert_eq!(outcome, Outcome::ConnectFailed);
    assert!(error.starts_with("can't connect to 127.0.0.1:") && error.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_does_not_resolve() {
    let (outcome, error) = without_status(send(&local(LONG), "https://nowhere.invalid/").await);
    assert_eq!(outcome, Outcome::NotResolved);
    assert!(error.starts_with("host doesn't resolve: "), "{error}");
}

#[tokio::test]
async fn a_certificate_that_does_not_hold_ends_before_anything_is_sent() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (receiver, text) in [
        (Receiver::https(&stranger), "TLS: invalid peer certificate: "),
        (Receiver::https_for(&authority, &["elsewhere.example"]), "TLS: invalid peer certificate: "),
    ] {
        let attempt = send(&trusting(&authority, LONG), &receiver.url_by_name("/")).await;
        let (outcome, error) = without_status(attempt);
        assert_eq!(outcome, Outcome::TlsFailed, "{error}");
        assert!(error.starts_with(text), "{error}");
        assert_eq!(receiver.count(), 0);
    }
}

#[tokio::test]
async fn what_speaks_no_tls_is_no_receiver() {
    let plain = Receiver::http();
    let url = plain.url("/").replace("http://", "https://");
    // It waits for the end of a request that never comes.
    assert_eq!(without_status(send(&local(SHORT), &url).await).0, Outcome::Timeout);
    let resetting = Receiver::https(&Authority::new());
    resetting.reset_at_the_door();
    let (outcome, error) = without_status(send(&local(LONG), &resetting.url("/")).await);
    // How far it got is for the system to say.
    assert!(matches!(outcome, Outcome::TlsFailed | Outcome::ConnectFailed), "{error}");
}
