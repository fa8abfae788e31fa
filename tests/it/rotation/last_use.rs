//! The last use of a key's secrets, as `connectctl key list` shows it.

use serde_json::Value;
use tests::event::batch;
use tests::{ApiKey, StatementRecorder, World, event};

fn request(key: &ApiKey) -> tests::HttpRequest {
    key.events(batch(&[event("contact.identified").email("ana@example.com")]))
}

/// The key as it is listed.
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
    assert!(
        old["current"] == false && old["validUntil"].is_string() && old["lastUsedAt"].is_string(),
        "{key}"
    );
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
    assert_eq!(
        (&key["safeToRevoke"], &key["secrets"][0]["safeToRevoke"]),
        (&false.into(), &false.into()),
        "{key}"
    );
    assert_eq!(key["secrets"][1]["safeToRevoke"], true, "{key}");
}

#[tokio::test]
async fn many_requests_write_the_last_use_once() {
    let mut world = World::with().ingests(0).start().await;
    let recorder = StatementRecorder::in_front_of(world.database.url());
    world.set("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    let requests: Vec<_> = (0..100).map(|_| request(&world.key)).collect();
    let sent =
        futures_util::future::join_all(requests.iter().map(|request| world.http().send(request))).await;
    assert!(sent.iter().all(|response| response.status == 200), "{sent:?}");
    world.end_ingests().await;
    let sent = recorder.take("ingest_replay").concat();
    // The requests may have taken longer than the minute between two writes.
    let writes = sent.iter().filter(|statement| *statement == "api_key_uses.record").count();
    assert!((1..=3).contains(&writes), "{writes} writes");
    assert!(listed(&world).await["lastUsedAt"].is_string());
}
