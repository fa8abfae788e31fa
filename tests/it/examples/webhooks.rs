//! Verifying webhooks.

use super::LANGUAGES;
use common::signature::sign_webhook;
use futures_util::future::join_all;
use serde_json::Value;
use tests::{CommandOutput, Receiver, World, event, now, text};

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
async fn judges_valid_wrong_stale_and_rotated_signatures_by_the_current_time() {
    let (new, old, body) = ("whsec-new", "whsec-old", "{\"payload\":{\"name\":\"Zoë\"}}\n");
    let signed = |secrets: &[&str], at: i64| {
        sign_webhook(secrets.iter().map(|secret| secret.as_bytes()), at, body.as_bytes())
    };
    let right = signed(&[new], now());
    let rotated = signed(&[new, old], now());
    for language in LANGUAGES {
        for (what, secret, signature, body, is_good) in [
            ("right", new, right.clone(), body, true),
            ("another secret", old, right.clone(), body, false),
            ("a changed body", new, right.clone(), "{}", false),
            ("stale", new, signed(&[new], now() - 320), body, false),
            ("ahead", new, signed(&[new], now() + 320), body, false),
            ("nearly stale", new, signed(&[new], now() - 250), body, true),
            ("rotated, with the new secret", new, rotated.clone(), body, true),
            ("rotated, with the old secret", old, rotated.clone(), body, true),
            ("rotated, with neither", "whsec-other", rotated.clone(), body, false),
        ] {
            assert_eq!(
                verifies(language, secret, &[&signature], body.as_bytes()).await,
                is_good,
                "{language}: {what}"
            );
        }
    }
}

#[tokio::test]
async fn every_language_judges_every_vector_correctly() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../vectors/webhook-signatures.json")).expect("vectors");
    for case in vectors["cases"].as_array().expect("cases") {
        let clock = case["now"].to_string();
        let arguments = [text(&case["header"]), clock.as_str()];
        let judged = LANGUAGES.map(|language| {
            verifies(language, text(&case["secret"]), &arguments, text(&case["body"]).as_bytes())
        });
        let is_good = case["valid"].as_bool().expect("a verdict");
        assert_eq!(join_all(judged).await, [is_good; 3], "{LANGUAGES:?}: {}", case["why"]);
    }
}

#[tokio::test]
async fn a_webhook_sent_during_a_rotation_verifies_with_both_secrets() {
    let world = World::shared().await;
    let receiver = Receiver::http();
    let url = receiver.url("/hooks");
    let made = world.subscribe(&url).await;
    let rotate = ["subscription", "rotate-secret", text(&made["id"]), "--overlap", "24h"];
    let rotated = world.connectctl.json(&rotate).await;
    world.accept(event("enquiry.submitted").email("ana@example.com").name("Zoë")).await;

    let webhook = receiver.wait_for(1).await.remove(0);
    let signature = [webhook.header("x-connect-signature")];
    assert_eq!(signature[0].matches("v1=").count(), 2, "{signature:?}");
    for language in LANGUAGES {
        for secret in [&made["secret"], &rotated["secret"]] {
            assert!(verifies(language, text(secret), &signature, &webhook.body).await, "{language}");
        }
        assert!(!verifies(language, "whsec-other", &signature, &webhook.body).await, "{language}");
    }
}
