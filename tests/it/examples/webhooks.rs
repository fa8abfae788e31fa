//! Verifying webhooks, also by Stripe's Python library, which creates and verifies signatures of the scheme `v1`.

use super::LANGUAGES;
use super::readme::{block, cases};
use crate::openapi::{python_tool, run};
use common::signature::sign_webhook;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tests::{CommandOutput, EVENTS, HttpRequest, ReceivedRequest, Receiver, World, batch, event, now, text};

/// Whether an example accepts a webhook. What it prints must match its exit code.
async fn verifies(language: &str, secret: &str, arguments: &[&str], body: &[u8]) -> bool {
    let settings = [("CONNECT_WEBHOOK_SECRET".to_owned(), secret.to_owned())];
    let ran = CommandOutput::example(&format!("verify-webhook.{language}"), arguments, &settings, body).await;
    match (ran.code, ran.output.as_str(), ran.errors.as_str()) {
        (Some(0), "verified\n", "") => true,
        (Some(1), "", why) if why.starts_with("refused: ") => false,
        _ => panic!("verify-webhook.{language} {arguments:?}: {ran:?}"),
    }
}

#[tokio::test]
async fn a_signature_is_judged_by_the_current_time() {
    for (at, is_good) in [(now(), true), (now() - 320, false)] {
        let signature = sign_webhook([b"whsec-new".as_slice()], at, b"{}");
        for language in LANGUAGES {
            assert_eq!(verifies(language, "whsec-new", &[&signature], b"{}").await, is_good, "{language}: {at}");
        }
    }
}

#[tokio::test]
async fn every_language_judges_every_vector_correctly() {
    let vectors: Value = serde_json::from_str(include_str!("../../vectors/webhook-signatures.json")).expect("vectors");
    for case in vectors["cases"].as_array().expect("cases") {
        let clock = case["now"].to_string();
        let arguments = [text(&case["header"]), clock.as_str()];
        let judged = LANGUAGES
            .map(|language| verifies(language, text(&case["secret"]), &arguments, text(&case["body"]).as_bytes()));
        let is_good = case["valid"].as_bool().expect("a verdict");
        assert_eq!(join_all(judged).await, [is_good; 3], "{LANGUAGES:?}: {}", case["why"]);
    }
}

#[tokio::test]
async fn deliveries_before_and_during_a_rotation_verify_with_the_secrets_of_their_time() {
    for ((delivery, secret, body), is_good) in around_a_rotation().await.iter().zip(VALID) {
        let signature = [delivery.header("x-connect-signature")];
        for language in LANGUAGES {
            assert_eq!(verifies(language, text(secret), &signature, body).await, is_good, "{language}: {signature:?}");
        }
    }
}

/// Runs the code of a document between a preparation and what prints the result. Both see the value `given`.
pub(super) async fn python(code: &str, given: &Value, prepare: &str, finish: &str) -> Value {
    let program = format!("import json, sys\ngiven = json.loads(sys.argv[1])\n{prepare}\n{code}\n{finish}");
    let mut python = python_tool("python").await;
    let ran = run(python.args(["-c", &program, &given.to_string()]), 1).await;
    assert!(ran.succeeded, "{program}\n{ran:?}");
    serde_json::from_str(&ran.output).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// The verdicts on deliveries, `[{"secret", "header", "body"}, ..]`, each at the time `now` if it has one.
async fn verdicts(deliveries: &Value) -> Vec<bool> {
    let code = block("integrators.md", "Receive webhooks", "python stripe");
    let (import, verify) = code.trim().split_once('\n').expect("two lines");
    let prepare = format!(
        "import time
{import}
def judged(secret, header, body, now=None, **others):
    if now is not None:
        time.time = lambda: now
    body = body.encode()
    try:
        {verify}
    except Exception as error:
        print(error, file=sys.stderr)
        return False
    return True"
    );
    let judged = python("", deliveries, &prepare, "print(json.dumps([judged(**one) for one in given]))").await;
    serde_json::from_value(judged).expect("verdicts")
}

#[tokio::test]
async fn a_batch_that_stripes_library_has_signed_is_accepted() {
    let world = World::shared().await;
    let code = block("partners.md", "Send your first batch", "python stripe");
    let body = batch(&[event("contact.identified").email("ana@example.com").name("Ána")]);
    let given = json!({"body": String::from_utf8_lossy(&body), "secret": world.key.secret});
    let prepare = "body, secret = given['body'], given['secret']";
    let header = python(&code, &given, prepare, "print(json.dumps(header))").await;
    let send = async |body: Vec<u8>| {
        let request = HttpRequest::new("POST", EVENTS, body).with("x-connect-key", &world.key.prefix);
        let request = request.with("x-connect-tenant", &world.key.tenant).with("x-connect-signature", text(&header));
        world.http().send(&request.with("content-type", "application/json")).await
    };
    let mut other = body.clone();
    other.push(b' ');
    assert_eq!(send(other).await.status, 401, "the signature is of the other body");
    assert_eq!(send(body).await.assert_status(200).json()["accepted"], 1);
}

/// Which of the deliveries [`around_a_rotation`] are valid.
pub(super) const VALID: [bool; 5] = [true, true, true, false, false];

/// A delivery before a rotation and one during its overlap, each with a secret, and with its body or a longer one.
pub(super) async fn around_a_rotation() -> [(ReceivedRequest, Value, Vec<u8>); 5] {
    let world = World::shared().await;
    let receiver = Receiver::http();
    let created = world.subscribe(&receiver.url("/hooks")).await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Ána")).await;
    let first = receiver.wait_for(1).await.remove(0);
    let rotate = ["subscription", "rotate-secret", text(&created["id"]), "--overlap", "24h"];
    let rotated = world.connectctl.json(&rotate).await;
    world.accept(event("enquiry.submitted").email("ben@example.com")).await;
    let second = receiver.wait_for(2).await.remove(1);
    let (old, new) = (&created["secret"], &rotated["secret"]);
    let cases = [(&first, old, ""), (&second, old, ""), (&second, new, ""), (&first, new, ""), (&first, old, " ")];
    cases.map(|(delivery, secret, added)| {
        (delivery.clone(), secret.clone(), [&delivery.body[..], added.as_bytes()].concat())
    })
}

#[tokio::test]
async fn stripes_library_verifies_deliveries_also_while_a_secret_is_rotated() {
    let cases = around_a_rotation().await;
    assert_eq!(cases[1].0.header("x-connect-signature").matches("v1=").count(), 2);
    let deliveries = cases.map(|(delivery, secret, body)| {
        let header = delivery.header("x-connect-signature");
        json!({"secret": secret, "header": header, "body": String::from_utf8_lossy(&body)})
    });
    assert_eq!(verdicts(&json!(deliveries)).await, VALID);
}

/// Where the library judges otherwise than the functions of the document. None of them lets a third party forge a delivery.
const DIFFERENCES: [(&str, bool); 11] = [
    ("301 s ahead", true),
    ("upper-case hex", false),
    ("a timestamp with a leading zero is signed as its text", false),
    ("a timestamp beyond 64 bits", true),
    ("something after the hex, behind another =", true),
    ("something after the timestamp, behind another =", true),
    ("two timestamps, the first signed", true),
    ("the same timestamp twice", true),
    ("a second timestamp that is no number", true),
    ("an element without = beside a good one", false),
    ("the name t without = beside the timestamp", false),
];

#[tokio::test]
async fn stripes_library_judges_the_vectors_except_where_it_is_known_to_differ() {
    let cases = cases();
    let verdicts = verdicts(&json!(cases)).await;
    assert_eq!(verdicts.len(), cases.len());
    let judged = cases.iter().zip(verdicts).filter(|(case, verdict)| case["valid"] != *verdict);
    let different: Vec<(&str, bool)> = judged.map(|(case, verdict)| (text(&case["why"]), verdict)).collect();
    assert_eq!(different, DIFFERENCES);
}
