//! The two secrets of an API key while it is rotated (D33), and their last use, as `connectctl key list` shows it.

use super::swapped;
use crate::auth::valid;
use serde_json::Value;
use tests::{ApiKey, HttpClient, HttpRequest, MAX_WAIT, RECORDS, World, batch, event, eventually, text};

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
        assert!(refusal.contains(text(&until["validUntil"])) && refusal.contains("--replace-overlap"), "{refusal}");
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
    world.connectctl.assert_refusal(&["key", "rotate-secret", &old.prefix], "is revoked for good").await;
    world.connectctl.assert_refusal(&["key", "rotate-secret", "ck_0000000000000000"], "does not exist").await;
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

fn request(key: &ApiKey) -> tests::HttpRequest {
    key.events(batch(&[event("contact.identified").email("ana@example.com")]))
}

async fn listed(world: &World) -> Value {
    let keys = world.connectctl.list(&["key", "list", "--tenant", "acme"]).await;
    keys.into_iter().find(|key| key["prefix"] == world.key.prefix.as_str()).expect("the key")
}

#[tokio::test]
async fn the_last_use_of_each_secret_is_listed() {
    let mut world = World::with().join().await;
    assert_eq!(listed(&world).await["lastUsedAt"], Value::Null);
    assert_eq!(world.http().send(&request(&world.key)).await.status, 200);
    let rotate = ["key", "rotate-secret", &world.key.prefix, "--overlap", "24h"];
    let new = ApiKey::of("acme", &world.connectctl.json(&rotate).await);
    let refused = request(&ApiKey { secret: "wrong".to_owned(), ..new.clone() });
    assert_eq!(world.http().send(&refused).await.status, 401);
    world.end_ingests().await;
    let key = listed(&world).await;
    let [current, old] = &key["secrets"].as_array().expect("secrets")[..] else { panic!("{key}") };
    assert_eq!((&current["current"], &current["lastUsedAt"]), (&Value::from(true), &Value::Null), "{key}");
    assert!(old["current"] == false && old["validUntil"].is_string() && old["lastUsedAt"].is_string(), "{key}");
    assert_eq!(key["lastUsedAt"], old["lastUsedAt"], "{key}");

    world.add_ingest().await;
    assert_eq!(world.http().send(&request(&new)).await.status, 200);
    world.end_ingests().await;
    let key = listed(&world).await;
    assert!(key["lastUsedAt"] == key["secrets"][0]["lastUsedAt"] && key["lastUsedAt"].is_string(), "{key}");
}

#[tokio::test]
async fn a_secret_is_safe_to_revoke_after_seven_days_without_use() {
    let mut world = World::with().join().await;
    let is_safe = async |world: &World| listed(world).await["safeToRevoke"].as_bool().expect("a boolean");
    assert!(!is_safe(&world).await, "it is new");
    world.database.execute("UPDATE api_keys SET created_at = now() - interval '8 days'").await;
    assert!(is_safe(&world).await);
    assert_eq!(world.http().send(&request(&world.key)).await.status, 200);
    world.end_ingests().await;
    assert!(!is_safe(&world).await);
    world.database.execute("UPDATE api_key_uses SET last_used_at = now() - interval '7 days 1 minute'").await;
    assert!(is_safe(&world).await);
    let rotate = ["key", "rotate-secret", &world.key.prefix, "--overlap", "30d"];
    world.connectctl.json(&rotate).await;
    let key = listed(&world).await;
    let expected = (&false.into(), &false.into());
    assert_eq!((&key["safeToRevoke"], &key["secrets"][0]["safeToRevoke"]), expected, "{key}");
    assert_eq!(key["secrets"][1]["safeToRevoke"], true, "{key}");
}

#[tokio::test]
async fn many_requests_write_the_last_use_once() {
    let mut world = World::with().ingests(0).start().await;
    let recorder = world.record_statements();
    world.add_ingest().await;
    let requests: Vec<_> = (0..100).map(|_| request(&world.key)).collect();
    let sent = futures_util::future::join_all(requests.iter().map(|request| world.http().send(request))).await;
    assert!(sent.iter().all(|response| response.status == 200), "{sent:?}");
    world.end_ingests().await;
    let sent = recorder.take("ingest_background").concat();
    // The requests may have taken longer than the minute between two writes.
    let writes = sent.iter().filter(|statement| *statement == "api_key_uses.record").count();
    assert!((1..=3).contains(&writes), "{writes} writes");
    assert!(listed(&world).await["lastUsedAt"].is_string());
}
