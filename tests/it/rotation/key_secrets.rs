//! The two secrets of an API key while it is rotated (D33).

use super::swapped;
use crate::auth::valid;
use serde_json::Value;
use tests::{ApiKey, HttpClient, HttpRequest, MAX_WAIT, RECORDS, World, eventually, text};

/// Rotates the secret of a key and returns the key with its new secret.
async fn rotate(world: &World, key: &ApiKey, options: &[&str]) -> ApiKey {
    let rotate = [&["key", "rotate-secret", &key.prefix], options].concat();
    let rotated = world.connectctl.json(&rotate).await;
    let fields: Vec<&String> = rotated.as_object().expect("an object").keys().collect();
    assert_eq!(fields, ["prefix", "secret"]);
    assert!(rotated["prefix"] == key.prefix.as_str() && rotated["secret"] != key.secret.as_str());
    ApiKey::of("acme", &rotated)
}

/// Waits until every ingest responds to requests with `key` with `status`.
async fn until_status(world: &World, key: &ApiKey, status: u16) {
    eventually(&format!("every ingest says {status}"), MAX_WAIT, async || {
        for http in world.all_http() {
            let response = http.send(&key.events(valid())).await;
            if response.status != status {
                return Err(response.status.to_string());
            }
        }
        Ok(())
    })
    .await;
}

async fn status(http: &HttpClient, request: &HttpRequest) -> u16 {
    http.send(request).await.status
}

#[tokio::test]
async fn both_secrets_verify_during_an_overlap_and_each_signature_once() {
    let world = World::shared().await;
    let old = world.key.clone();
    until_status(&world, &old, 200).await;
    let new = rotate(&world, &old, &["--overlap", "24h"]).await;
    until_status(&world, &new, 200).await;
    let [first, second] = world.all_http()[..] else { panic!("two ingests") };
    for key in [&old, &new] {
        let target = format!("{RECORDS}/clients?email=ana@example.com");
        for request in [key.events(valid()), key.records("GET", &target, "")] {
            assert_eq!(status(first, &request).await, 200, "{request:?}");
            for http in [first, second, first] {
                assert_eq!(status(http, &request).await, 401, "used before: {request:?}");
            }
        }
    }
    // The same request at the same second is another signature with the other secret.
    let t = tests::now() - 7;
    assert_eq!(status(first, &old.events_at(t, valid())).await, 200);
    assert_eq!(status(second, &new.events_at(t, valid())).await, 200);
    let guessed = ApiKey { secret: "no key has this secret".to_owned(), ..old.clone() };
    assert_eq!(status(first, &guessed.events(valid())).await, 401);
}

#[tokio::test]
async fn the_old_secret_is_refused_once_the_overlap_has_ended() {
    let world = World::shared().await;
    let old = world.key.clone();
    until_status(&world, &old, 200).await;
    let new = rotate(&world, &old, &["--overlap", "3s"]).await;
    until_status(&world, &old, 401).await;
    until_status(&world, &new, 200).await;

    let newest = rotate(&world, &new, &["--overlap", "24h"]).await;
    until_status(&world, &newest, 200).await;
    until_status(&world, &new, 200).await;
    let listed = world.connectctl.json(&["key", "end-overlap", &new.prefix]).await;
    assert_eq!(listed["secrets"].as_array().map(Vec::len), Some(1), "{listed}");
    until_status(&world, &new, 401).await;
    until_status(&world, &newest, 200).await;
}

#[tokio::test]
async fn a_second_rotation_during_an_overlap_is_refused_unless_it_is_forced_and_may_end_it_at_once() {
    let world = World::shared().await;
    let first = world.key.clone();
    let second = rotate(&world, &first, &["--overlap", "24h"]).await;
    let until = world.connectctl.list(&["key", "list", "--tenant", "acme"]).await[0]["secrets"][1].clone();
    for options in [&["--overlap", "24h"][..], &[]] {
        let again = [&["key", "rotate-secret", &first.prefix], options].concat();
        let refusal = world.connectctl.refusal(&again).await;
        assert!(
            refusal.contains(text(&until["validUntil"])) && refusal.contains("--replace-overlap"),
            "{refusal}"
        );
    }
    for key in [&first, &second] {
        until_status(&world, key, 200).await;
    }
    let third = rotate(&world, &first, &["--overlap", "24h", "--replace-overlap"]).await;
    for (key, expected) in [(&third, 200), (&second, 200), (&first, 401)] {
        until_status(&world, key, expected).await;
    }
    let newest = rotate(&world, &first, &["--replace-overlap"]).await;
    for (key, expected) in [(&newest, 200), (&third, 401), (&second, 401)] {
        until_status(&world, key, expected).await;
    }
}

#[tokio::test]
async fn a_revoked_key_is_refused_with_both_secrets() {
    let world = World::shared().await;
    let old = world.key.clone();
    let new = rotate(&world, &old, &["--overlap", "24h"]).await;
    until_status(&world, &new, 200).await;
    world.connectctl.json(&["key", "revoke", &old.prefix]).await;
    until_status(&world, &new, 401).await;
    until_status(&world, &old, 401).await;
    let refusal = world.connectctl.refusal(&["key", "rotate-secret", &old.prefix]).await;
    assert!(refusal.contains("is revoked for good"), "{refusal}");
    let refusal = world.connectctl.refusal(&["key", "rotate-secret", "ck_0000000000000000"]).await;
    assert!(refusal.contains("does not exist"), "{refusal}");
}

#[tokio::test]
async fn an_old_secret_is_rewrapped_with_the_master_key() {
    let mut world = World::with().ingests(0).start().await;
    let old = world.key.clone();
    let new = rotate(&world, &old, &["--overlap", "24h"]).await;
    let rotated = swapped(&world).json(&["secrets", "rotate"]).await;
    assert_eq!(rotated["remaining"], Value::from(0), "{rotated}");
    super::swap(&mut world);
    super::remove_previous(&mut world);
    world.end_workers().await;
    world.add_worker().await;
    world.add_ingest().await;
    until_status(&world, &old, 200).await;
    until_status(&world, &new, 200).await;
}
