//! What examples do when no answer comes, or one that asks to come again.

use super::LANGUAGES;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tests::{Behaviour, Ran, Receiver};

const EVENTS: &str = "/api/v1/crm/connect/events";
const LEADS: &str = "/api/v1/crm/connect/leads";

/// Runs an example against `url`, which may end in a slash.
async fn run(file: &str, url: &str) -> Ran {
    let settings = [
        ("CONNECT_URL", url),
        ("CONNECT_TENANT", "acme"),
        ("CONNECT_KEY", "ck_test"),
        ("CONNECT_SECRET", "a secret"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ran::example(file, &["order-1"], &settings, b"").await
}

fn error(status: u16, code: &str) -> Behaviour {
    let body = json!({"statusCode": status, "code": code, "message": "no"}).to_string();
    Behaviour::status(status).with_header("x-request-id", "the-id").with_body(body)
}

/// Runs an example in every language against a receiver that behaves so to its first requests and is content then. It
/// must come again each time, signed anew, with the same body under the same key.
async fn comes_again(name: &str, path: &str, status: u16, first: &[Behaviour]) {
    join_all(LANGUAGES.map(async |language| {
        let file = format!("{name}.{language}");
        let receiver = Receiver::http();
        receiver.answer_next(path, first.iter().cloned());
        receiver.answer(path, Behaviour::status(status).with_body("{}"));
        let ran = run(&file, &receiver.url("/")).await;
        assert_eq!((ran.code, ran.output.as_str(), ran.errors.as_str()), (Some(0), "{}\n", ""), "{file}");
        let received = receiver.received_at(path);
        assert_eq!(received.len(), first.len() + 1, "{file}: {received:?}");
        let signatures: BTreeSet<&str> =
            received.iter().map(|one| one.header("x-connect-signature")).collect();
        assert_eq!(signatures.len(), received.len(), "{file}: {signatures:?}");
        for one in &received {
            assert_eq!(one.body, received[0].body, "{file}");
            let key = if path == LEADS { "order-1" } else { "" };
            assert_eq!(one.header("idempotency-key"), key, "{file}");
        }
    }))
    .await;
}

/// Runs an example in every language against a receiver that always behaves so. It must give up after `tries`.
async fn gives_up((name, path): (&str, &str), always: Behaviour, tries: usize, says: &str) {
    join_all(LANGUAGES.map(async |language| {
        let file = format!("{name}.{language}");
        let receiver = Receiver::http();
        receiver.answer_all(always.clone());
        let ran = run(&file, &receiver.url("")).await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "{file}: {ran:?}");
        assert!(ran.errors.starts_with(says), "{file}: {ran:?}");
        assert_eq!(receiver.received_at(path).len(), tries, "{file}");
    }))
    .await;
}

#[tokio::test]
async fn without_an_answer_or_a_time_to_wait_examples_come_again_signed_anew() {
    let soon = error(503, "overloaded").with_header("retry-after", "soon");
    let batch = [Behaviour::Reset, error(503, "overloaded"), soon.clone(), Behaviour::Close];
    let lead = [Behaviour::Reset, error(503, "overloaded"), error(500, "lead_create_failed"), soon];
    futures_util::join!(
        comes_again("send-batch", EVENTS, 200, &batch),
        comes_again("create-lead", LEADS, 201, &lead)
    );
}

#[tokio::test]
async fn examples_wait_as_long_as_they_are_asked_to() {
    let calls = [("send-batch", EVENTS, 200), ("create-lead", LEADS, 201)];
    let all = calls.into_iter().flat_map(|call| LANGUAGES.map(|language| (call, language)));
    join_all(all.map(async |((name, path, status), language)| {
        let receiver = Receiver::http();
        receiver.answer_next(path, [error(503, "overloaded").with_header("retry-after", "3")]);
        receiver.answer(path, Behaviour::status(status).with_body("{}"));
        let ran = run(&format!("{name}.{language}"), &receiver.url("")).await;
        assert_eq!(ran.code, Some(0), "{name}.{language}: {ran:?}");
        let received = receiver.received_at(path);
        assert!(received[1].at - received[0].at >= Duration::from_secs(3), "{name}.{language}");
    }))
    .await;
}

#[tokio::test]
async fn examples_give_up_after_five_attempts_and_at_once_where_another_would_not_help() {
    let (batch, lead) = (("send-batch", EVENTS), ("create-lead", LEADS));
    let [refused_500, refused_503] =
        [500, 503].map(|status| format!("refused with {status}, X-Request-Id the-id: {{"));
    futures_util::join!(
        gives_up(batch, Behaviour::Reset, 5, "no answer: "),
        gives_up(lead, Behaviour::Reset, 5, "no answer: "),
        gives_up(batch, error(503, "overloaded"), 5, &refused_503),
        gives_up(lead, error(500, "lead_create_failed"), 5, &refused_500),
        gives_up(batch, error(500, "internal_error"), 1, &refused_500),
        gives_up(lead, error(500, "internal_error"), 1, &refused_500),
    );
}
