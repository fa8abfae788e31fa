//! Each reason is recorded, with what is needed to correct the request and nothing else.

use super::{of, refusals, refused, until_recorded, valid, with_wrong_secret};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tests::{EVENTS, HttpRequest, RECORDS, World, now, text};

#[tokio::test]
async fn each_failed_authentication_is_recorded_with_its_reason() {
    let world = World::shared().await;
    let key = world.key.clone();
    let limited = world.add_key("leads:read").await;
    let revoked = world.add_key("events:ingest").await;
    world.connectctl.json(&["key", "revoke", &revoked.prefix]).await;
    let expired = world.add_key("events:ingest").await;
    let expire = format!(
        "UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE prefix = '{}'",
        expired.prefix
    );
    world.database.execute(&expire).await;
    let replayed = key.events(b"[]".to_vec());
    refused(&world, &replayed, 400).await;
    let clients = format!("{RECORDS}/clients?email=a");
    let signature = key.events(valid()).header("x-connect-signature");
    let spaced = signature.replace(',', ", ");
    let v1_as_v2 = key.records("GET", &clients, "").header("x-connect-signature");
    let without = |header: &str| key.events(valid()).without(header);
    let with = |header: &str, value: &str| key.events(valid()).replacing(header, value);
    let cases: Vec<(HttpRequest, u16, &str, &str)> = vec![
        (without("x-connect-tenant"), 401, "missing_header", "X-Connect-Tenant: is missing"),
        (without("x-connect-signature"), 401, "missing_header", "X-Connect-Signature: is missing"),
        (
            key.events(valid()).with("x-connect-signature", &signature),
            401,
            "repeated_header",
            "X-Connect-Signature: is repeated",
        ),
        (
            with("x-connect-signature", &spaced),
            401,
            "malformed_header",
            "X-Connect-Signature: contains spaces",
        ),
        (
            with("x-connect-signature", "t=1"),
            401,
            "malformed_header",
            "X-Connect-Signature: has no comma after t=<seconds>",
        ),
        (with("x-connect-tenant", " "), 401, "malformed_header", "X-Connect-Tenant: is empty"),
        (with("x-connect-signature", &v1_as_v2), 401, "wrong_scheme", "the events route takes v1"),
        (key.events_at(now() - 1_000, valid()), 401, "stale", "s behind the clock of Connect"),
        (key.events_at(now() + 1_000, valid()), 401, "stale", "s ahead of the clock of Connect"),
        (with_wrong_secret(&key).events(valid()), 401, "mismatch", "the secret"),
        (revoked.events(valid()), 401, "revoked_key", ""),
        (expired.events(valid()), 401, "expired_key", ""),
        (with("x-connect-tenant", "other"), 403, "tenant", "names another agency"),
        (limited.events(valid()), 403, "scope", "lacks the scope events:ingest"),
        (replayed, 401, "replayed", ""),
    ];
    let mut ids = Vec::new();
    for (request, status, reason, detail) in &cases {
        ids.push((refused(&world, request, *status).await, *status, *reason, *detail));
    }
    let listed = until_recorded(&world, cases.len() + 1).await;
    assert_eq!(listed.len(), cases.len() + 1, "{listed:?}");
    for (id, status, reason, detail) in ids {
        let recorded = of(&listed, &id);
        assert_eq!(
            (&recorded["reason"], &recorded["status"]),
            (&reason.into(), &status.into()),
            "{recorded}"
        );
        let told = recorded["detail"].as_str().unwrap_or_default();
        assert!(told.contains(detail), "{reason}: {recorded}");
        assert_eq!((&recorded["route"], &recorded["method"]), (&EVENTS.into(), &"POST".into()), "{recorded}");
    }
    assert!(
        listed.is_sorted_by_key(|refused| text(&refused["requestId"]).to_owned()),
        "newest last: {listed:?}"
    );
    let of_key = refusals(&world, &["acme", "--key", &limited.prefix]).await;
    assert_eq!(of_key.len(), 1, "{of_key:?}");
}

#[tokio::test]
async fn the_body_is_recorded_by_its_hash_and_size_and_nothing_of_it_is_stored() {
    let world = World::shared().await;
    let marker = "marker-of-a-body";
    let body = format!("{{\"events\": \"{marker}\"}}");
    let id = refused(&world, &world.key.events(body.clone()), 400).await;
    let field = format!("{RECORDS}/clients");
    let unknown = format!("{{\"email\": \"a@example.com\", \"{marker}\": 1}}");
    let record = world.key.records("POST", &field, unknown).with("idempotency-key", "1");
    let strict = refused(&world, &record, 400).await;
    let look_up = world.key.records("GET", &format!("{RECORDS}/clients?{marker}=1"), "");
    refused(&world, &look_up, 400).await;
    let wrong = with_wrong_secret(&world.key).events(body.clone());
    let mac = wrong.header("x-connect-signature").split_once("v1=").expect("a MAC").1.to_owned();
    refused(&world, &wrong, 401).await;
    let listed = until_recorded(&world, 4).await;
    let recorded = of(&listed, &id);
    assert_eq!(recorded["reason"], "invalid_request");
    assert_eq!(recorded["detail"], "events: must be an array");
    assert_eq!(recorded["bodySha256"], hex::encode(Sha256::digest(&body)));
    assert_eq!(recorded["bodyBytes"], body.len());
    assert_eq!(of(&listed, &strict)["detail"], "…: is not a known field", "{listed:?}");
    let rows = world.database.rows("SELECT r::text AS row FROM refused_requests r", &[]).await;
    let stored = format!("{rows:?}");
    for secret in [marker, mac.as_str(), world.key.secret.as_str(), "a@example.com"] {
        assert!(!stored.contains(secret), "{secret}: {stored}");
    }
}

#[tokio::test]
async fn limits_are_recorded_and_results_about_records_are_not() {
    let world = World::shared().await;
    world.connectctl.json(&["tenant", "set", "--tenant", "acme", "--monthly-quota", "0"]).await;
    let clients = format!("{RECORDS}/clients");
    let create = world.key.records("POST", &clients, r#"{"email":"ana@example.com"}"#);
    refused(&world, &create.clone().with("idempotency-key", "1"), 429).await;
    refused(&world, &world.key.records("POST", &clients, "{}"), 400).await;
    let missing = format!("{clients}/0190c9d4-7a3b-7c11-9d1e-3f5a8b2c4d6e");
    refused(&world, &world.key.records("GET", &missing, ""), 404).await;
    let listed = until_recorded(&world, 2).await;
    let mut reasons: Vec<&str> = listed.iter().map(|refused| text(&refused["reason"])).collect();
    reasons.sort_unstable();
    assert_eq!(reasons, ["idempotency_key_required", "quota_exceeded"]);
}

#[tokio::test]
async fn a_refused_request_is_found_by_its_id_in_its_own_agency_only() {
    let world = World::shared().await;
    world.add_tenant("other").await;
    let id = refused(&world, &world.key.events_at(1, valid()), 401).await;
    until_recorded(&world, 1).await;
    let found = world.connectctl.list(&["find", &id]).await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["stage"], &found[0]["tenant"]), (&"refused".into(), &"acme".into()));
    assert!(text(&found[0]["detail"]).contains("stale"), "{found:?}");
    assert_eq!(world.connectctl.list(&["find", &id, "--tenant", "other"]).await, Vec::<Value>::new());
    assert_eq!(refusals(&world, &["other"]).await, Vec::<Value>::new());
    let foreign = ["refusals", "--tenant", "other", "--key", &world.key.prefix];
    assert!(world.connectctl.refusal(&foreign).await.contains("does not exist"), "a foreign key is unknown");
}
