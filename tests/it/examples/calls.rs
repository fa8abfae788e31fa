//! Sending a batch, creating a lead: what is sent, what happens without a response or with one that asks for a retry,
//! and wrong calls, which print one line of usage and do nothing.

use super::LANGUAGES;
use chrono::DateTime;
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;
use tests::{ApiKey, Behavior, CommandOutput, MAX_WAIT, Receiver, Samples, World, eventually, text, until};
use uuid::Uuid;

/// The variables of the examples, with the credentials of `key`.
pub(super) fn settings(world: &World, key: &ApiKey) -> [(String, String); 4] {
    let url = format!("http://{}", world.http().address());
    [
        ("CONNECT_URL", &url),
        ("CONNECT_TENANT", &key.tenant),
        ("CONNECT_KEY", &key.prefix),
        ("CONNECT_SECRET", &key.secret),
    ]
    .map(|(name, value)| (name.to_owned(), value.clone()))
}

/// Runs an example with the credentials of `key`.
async fn run(world: &World, key: &ApiKey, name: &str, language: &str, argument: &str) -> CommandOutput {
    CommandOutput::example(&format!("{name}.{language}"), &[argument], &settings(world, key), b"").await
}

/// Runs an example that must succeed, and returns what it printed.
async fn printed(world: &World, name: &str, language: &str, argument: &str) -> Value {
    let ran = run(world, &world.key, name, language, argument).await;
    assert_eq!(ran.code, Some(0), "{name}.{language}: {ran:?}");
    assert_eq!(ran.errors, "");
    ran.json()
}

/// Waits until the clock shows another second.
async fn another_second() {
    let now = tests::now();
    eventually(
        "another second",
        MAX_WAIT,
        async || {
            if tests::now() == now { Err("the same".to_owned()) } else { Ok(()) }
        },
    )
    .await;
}

#[tokio::test]
async fn sends_a_batch_that_is_a_duplicate_when_sent_again() {
    let world = World::shared().await;
    for language in LANGUAGES {
        let enquiry = format!("web-{language}");
        let first = printed(&world, "send-batch", language, &enquiry).await;
        assert_eq!((&first["accepted"], &first["failed"]), (&json!(2), &json!(0)), "{language}: {first}");
        // The same bytes signed within the same second are the same signature (D3).
        another_second().await;
        let again = printed(&world, "send-batch", language, &enquiry).await;
        assert_eq!(again["duplicate"], 2, "{language}: {again}");
        assert_eq!(first["results"][1]["leadId"], again["results"][1]["leadId"]);
        let lead = world.lead(&first["results"][1]["leadId"]).await;
        assert_eq!((&lead["externalId"], &lead["destination"]), (&json!(enquiry), &json!("Kerala")));
        assert_eq!(lead["party"]["adults"], 2);
        let entries = world.timeline(&first["results"][1]["clientId"]).await;
        for entry in entries {
            let at = DateTime::parse_from_rfc3339(text(&entry["occurredAt"])).expect("a time");
            assert!((tests::now() - at.timestamp()).abs() < 600, "{language}: not now: {entry}");
        }
    }
    assert_eq!(world.pipeline(&[]).await.len(), LANGUAGES.len());
}

#[tokio::test]
async fn a_dry_run_prints_the_results_and_sends_nothing_that_is_written() {
    let world = World::shared().await;
    let mut settings = settings(&world, &world.key).to_vec();
    settings.push(("CONNECT_DRY_RUN".to_owned(), "true".to_owned()));
    for language in LANGUAGES {
        let ran = CommandOutput::example(&format!("send-batch.{language}"), &["web-1"], &settings, b"").await;
        assert_eq!((ran.code, ran.errors.as_str()), (Some(0), ""), "{ran:?}");
        assert_eq!((&ran.json()["accepted"], ran.json()["results"][1].get("leadId")), (&json!(2), None), "{ran:?}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), 0);
}

#[tokio::test]
async fn creates_a_lead_once_for_an_idempotency_key() {
    let world = World::shared().await;
    for language in LANGUAGES {
        let order = format!("order-{language}");
        let first = printed(&world, "create-lead", language, &order).await;
        assert_eq!(first["data"]["externalId"], json!(order), "{language}: {first}");
        assert_eq!(first, printed(&world, "create-lead", language, &order).await, "{language}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), LANGUAGES.len());
}

#[tokio::test]
async fn exits_with_1_and_prints_the_request_id_of_a_refusal() {
    let world = World::shared().await;
    let wrong = ApiKey { secret: "wrong".to_owned(), ..world.key.clone() };
    for (name, language) in ["send-batch", "create-lead"].iter().flat_map(|name| LANGUAGES.map(|l| (name, l))) {
        let ran = run(&world, &wrong, name, language, "refused-1").await;
        assert_eq!((ran.code, ran.output.as_str()), (Some(1), ""), "{name}.{language}: {ran:?}");
        let id = ran.errors.strip_prefix("refused with 401, X-Request-Id ").and_then(|rest| rest.get(..36));
        assert!(id.is_some_and(|id| Uuid::try_parse(id).is_ok()), "{ran:?}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), 0);
}

/// The number of 503 responses so far.
fn unavailable(samples: &Samples) -> f64 {
    samples.sum("connect_http_requests_total", &[("status", "503")])
}

#[tokio::test]
async fn retries_a_503_and_has_one_effect() {
    let world = World::with().through_proxies().start().await;
    for language in LANGUAGES {
        let before = unavailable(&world.ingests[0].metrics().await);
        world.proxies().postgres.reset_connections();
        let runs = ["send-batch", "create-lead"].map(|name| printed(&world, name, language, language));
        let recovery = async {
            let more = async || unavailable(&world.ingests[0].metrics().await) - before;
            until("both get a 503", more, |&more| more >= 2.0).await;
            world.proxies().postgres.restore();
        };
        let (printed, ()) = futures_util::join!(join_all(runs), recovery);
        assert_eq!(printed[0]["failed"], 0, "{language}: {printed:?}");
        assert_eq!(printed[1]["data"]["externalId"], language, "{printed:?}");
    }
    assert_eq!(world.pipeline(&[]).await.len(), 2 * LANGUAGES.len());
}

const EVENTS: &str = "/api/v1/crm/connect/events";
const LEADS: &str = "/api/v1/crm/connect/leads";

/// Runs an example against `url`, which may end in a slash.
async fn run_against(file: &str, url: &str) -> CommandOutput {
    let settings =
        [("CONNECT_URL", url), ("CONNECT_TENANT", "acme"), ("CONNECT_KEY", "ck_test"), ("CONNECT_SECRET", "a secret")];
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
        let ran = run_against(&file, &receiver.url("/")).await;
        assert_eq!((ran.code, ran.output.as_str(), ran.errors.as_str()), (Some(0), "{}\n", ""), "{file}");
        let received = receiver.received_at(path);
        assert_eq!(received.len(), first.len() + 1, "{file}: {received:?}");
        let signatures: BTreeSet<&str> = received.iter().map(|one| one.header("x-connect-signature")).collect();
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
        let ran = run_against(&file, &receiver.url("")).await;
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
        let ran = run_against(&format!("{name}.{language}"), &receiver.url("")).await;
        assert_eq!(ran.code, Some(0), "{name}.{language}: {ran:?}");
        let received = receiver.received_at(path);
        assert!(received[1].at - received[0].at >= Duration::from_secs(3), "{name}.{language}");
    }))
    .await;
}

#[tokio::test]
async fn examples_give_up_after_five_attempts_or_immediately_on_permanent_errors() {
    let (batch, lead) = (("send-batch", EVENTS), ("create-lead", LEADS));
    let [refused_500, refused_503] = [500, 503].map(|status| format!("refused with {status}, X-Request-Id the-id: {{"));
    futures_util::join!(
        assert_gives_up(batch, Behavior::Reset, 5, "no response: "),
        assert_gives_up(lead, Behavior::Reset, 5, "no response: "),
        assert_gives_up(batch, error(503, "overloaded"), 5, &refused_503),
        assert_gives_up(lead, error(500, "lead_create_failed"), 5, &refused_500),
        assert_gives_up(batch, error(500, "internal_error"), 1, &refused_500),
        assert_gives_up(lead, error(500, "internal_error"), 1, &refused_500),
    );
}

const CALLS: [&str; 4] = ["CONNECT_URL", "CONNECT_TENANT", "CONNECT_KEY", "CONNECT_SECRET"];

/// Runs an example that must print what is missing.
async fn assert_usage_error(file: &str, arguments: &[&OsStr], settings: &[(String, String)], missing: &str) {
    let ran = CommandOutput::example(file, arguments, settings, b"{}").await;
    assert_eq!((ran.code, ran.output.as_str()), (Some(2), ""), "{file} without {missing}: {ran:?}");
    let line = ran.errors.strip_suffix('\n').expect("a line");
    assert!(line.starts_with("usage: ") && !line.contains('\n'), "{file}: {ran:?}");
    assert!(line.ends_with(&format!(" missing or wrong: {missing}")), "{file} without {missing}: {ran:?}");
}

/// These variables, with values.
fn values(names: &[&str]) -> Vec<(String, String)> {
    // No server listens there.
    let value = |name: &str| if name == "CONNECT_TENANT" { "acme" } else { "http://127.0.0.1:1" };
    names.iter().map(|name| ((*name).to_owned(), value(name).to_owned())).collect()
}

#[tokio::test]
async fn a_call_with_a_missing_argument_or_setting_names_it_and_sends_nothing() {
    for (name, argument) in [("send-batch", "ENQUIRY"), ("create-lead", "ORDER")] {
        let argument = &format!("{argument} (letters, digits and dashes, at most 80)");
        join_all(LANGUAGES.map(async |language| {
            let file = format!("{name}.{language}");
            let (set, empty) = (values(&CALLS), CALLS.map(|name| (name.to_owned(), String::new())));
            for bad in ["", "web \"1", "a\nb", "é"].map(OsStr::new) {
                assert_usage_error(&file, &[bad], &set, argument).await;
            }
            assert_usage_error(&file, &[OsStr::new("web-1")], &empty, &CALLS.join(" ")).await;
            assert_usage_error(&file, &[], &set[..3], &format!("{argument} CONNECT_SECRET")).await;
        }))
        .await;
    }
    let mut quoted = values(&CALLS);
    quoted[1].1 = "a\"b".to_owned();
    assert_usage_error("send-batch.sh", &[OsStr::new("web-1")], &quoted, "CONNECT_TENANT").await;
}

#[tokio::test]
async fn a_verification_with_a_missing_argument_or_setting_names_it() {
    let secret = values(&["CONNECT_WEBHOOK_SECRET"]);
    for language in LANGUAGES {
        let file = format!("verify-webhook.{language}");
        assert_usage_error(&file, &[], &[], "SIGNATURE CONNECT_WEBHOOK_SECRET").await;
        let wrong = ["t=1,v1=00", "now"].map(OsStr::new);
        assert_usage_error(&file, &wrong, &secret, "NOW").await;
    }
}

#[tokio::test]
async fn rejects_a_signature_that_is_not_utf_8() {
    let signature = OsStr::from_bytes(b"t=1767225600,v1=\xff\xfe");
    for language in LANGUAGES {
        let file = format!("verify-webhook.{language}");
        let settings = values(&["CONNECT_WEBHOOK_SECRET"]);
        let ran = CommandOutput::example(&file, &[signature, OsStr::new("1767225600")], &settings, b"{}").await;
        let refused = "refused: signed with another secret, or changed on its way\n";
        assert_eq!((ran.code, ran.output.as_str(), ran.errors.as_str()), (Some(1), "", refused), "{file}");
    }
}
