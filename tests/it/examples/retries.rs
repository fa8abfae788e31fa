//! What the examples do without a response, or with one that asks for a retry.

use super::LANGUAGES;
use futures_util::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tests::{Behavior, CommandOutput, Receiver};

const EVENTS: &str = "/api/v1/crm/connect/events";
const LEADS: &str = "/api/v1/crm/connect/leads";

/// Runs an example against `url`, which may end in a slash.
async fn run(file: &str, url: &str) -> CommandOutput {
    let settings = [
        ("CONNECT_URL", url),
        ("CONNECT_TENANT", "acme"),
        ("CONNECT_KEY", "ck_test"),
        ("CONNECT_SECRET", "a secret"),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    CommandOutput::example(file, &["order-1"], &settings, b"").await
}

fn error(status: u16, code: &str) -> Behavior {
    let body = json!({"statusCode": status, "code": code, "message": "no"}).to_string();
    Behavior::status(status).with_header("x-request-id", "the-id").with_body(body)
}

/// Runs an example in every language against a receiver that behaves like `first` at first and then succeeds. The example
/// must retry each time, with a new signature, the same body and the same idempotency key.
async fn assert_retries(name: &str, path: &str, status: u16, first: &[Behavior]) {
    join_all(LANGUAGES.map(async |language| {
        let file = format!("{name}.{language}");
        let receiver = Receiver::http();
        receiver.respond_to_next(path, first.iter().cloned());
        receiver.respond(path, Behavior::status(status).with_body("{}"));
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

/// Runs an example in every language against a receiver that always behaves like `always`. It must stop after `tries`.
async fn assert_gives_up((name, path): (&str, &str), always: Behavior, tries: usize, says: &str) {
    join_all(LANGUAGES.map(async |language| {
        let file = format!("{name}.{language}");
        let receiver = Receiver::http();
        receiver.respond_to_all(always.clone());
        let ran = run(&file, &receiver.url("")).await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "{file}: {ran:?}");
        assert!(ran.errors.starts_with(says), "{file}: {ran:?}");
        assert_eq!(receiver.received_at(path).len(), tries, "{file}");
    }))
    .await;
}

#[tokio::test]
async fn examples_retry_with_a_new_signature_without_a_response_or_retry_after() {
    let soon = error(503, "overloaded").with_header("retry-after", "soon");
    let batch = [Behavior::Reset, error(503, "overloaded"), soon.clone(), Behavior::Close];
    let lead = [Behavior::Reset, error(503, "overloaded"), error(500, "lead_create_failed"), soon];
    futures_util::join!(
        assert_retries("send-batch", EVENTS, 200, &batch),
        assert_retries("create-lead", LEADS, 201, &lead)
    );
}

#[tokio::test]
async fn examples_wait_for_retry_after() {
    let calls = [("send-batch", EVENTS, 200), ("create-lead", LEADS, 201)];
    let all = calls.into_iter().flat_map(|call| LANGUAGES.map(|language| (call, language)));
    join_all(all.map(async |((name, path, status), language)| {
        let receiver = Receiver::http();
        receiver.respond_to_next(path, [error(503, "overloaded").with_header("retry-after", "3")]);
        receiver.respond(path, Behavior::status(status).with_body("{}"));
        let ran = run(&format!("{name}.{language}"), &receiver.url("")).await;
        assert_eq!(ran.code, Some(0), "{name}.{language}: {ran:?}");
        let received = receiver.received_at(path);
        assert!(received[1].at - received[0].at >= Duration::from_secs(3), "{name}.{language}");
    }))
    .await;
}

#[tokio::test]
async fn examples_give_up_after_five_attempts_or_immediately_on_permanent_errors() {
    let (batch, lead) = (("send-batch", EVENTS), ("create-lead", LEADS));
    let [refused_500, refused_503] =
        [500, 503].map(|status| format!("refused with {status}, X-Request-Id the-id: {{"));
    futures_util::join!(
        assert_gives_up(batch, Behavior::Reset, 5, "no response: "),
        assert_gives_up(lead, Behavior::Reset, 5, "no response: "),
        assert_gives_up(batch, error(503, "overloaded"), 5, &refused_503),
        assert_gives_up(lead, error(500, "lead_create_failed"), 5, &refused_500),
        assert_gives_up(batch, error(500, "internal_error"), 1, &refused_500),
        assert_gives_up(lead, error(500, "internal_error"), 1, &refused_500),
    );
}
