//! Each reason is recorded, with what is needed to correct the request and nothing else. What is recorded is bounded,
//! and recording costs a request nothing.

use super::{of, refusals, refused, until_recorded, valid, with_wrong_secret, world};
use serde_json::Value;
use sha2::{Digest, Sha256};
use tests::{EVENTS, HttpRequest, RECORDS, World, now, text, until_equal};

#[tokio::test]
async fn each_failed_authentication_is_recorded_with_its_reason() {
    let world = World::shared().await;
    let key = world.key.clone();
    let limited = world.add_key("leads:read").await;
    let revoked = world.add_key("events:ingest").await;
    world.connectctl.json(&["key", "revoke", &revoked.prefix]).await;
    let expired = world.add_key("events:ingest").await;
    let expire =
        format!("UPDATE api_keys SET expires_at = now() - interval '1 minute' WHERE prefix = '{}'", expired.prefix);
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
        (with("x-connect-signature", &spaced), 401, "malformed_header", "X-Connect-Signature: contains spaces"),
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
        let expected = (&reason.into(), &status.into());
        assert_eq!((&recorded["reason"], &recorded["status"]), expected, "{recorded}");
        let told = recorded["detail"].as_str().unwrap_or_default();
        assert!(told.contains(detail), "{reason}: {recorded}");
        assert_eq!((&recorded["route"], &recorded["method"]), (&EVENTS.into(), &"POST".into()), "{recorded}");
    }
    assert!(listed.is_sorted_by_key(|refused| text(&refused["requestId"]).to_owned()), "newest last: {listed:?}");
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
    let unknown = format!("{{\"email\": \"a@example.com\", \"{marker}\": 1, \"phone\": 1}}");
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
    assert_eq!(of(&listed, &strict)["detail"], "…: is not a known field; phone: must be a string", "{listed:?}");
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

/// Refused requests of a flood.
const FLOOD: usize = 1_000;
/// Refused requests of a key that are recorded in a minute for one reason.
const PER_REASON: i64 = 10;

const ROWS: &str = "SELECT count(*) FROM refused_requests";

#[tokio::test]
async fn a_flood_leaves_some_rows_and_an_exact_count() {
    let mut world = world().await;
    let flood = with_wrong_secret(&world.key).events(valid());
    for _ in 0..FLOOD / 50 {
        let sent = (0..50).map(|_| world.http().send(&flood));
        let statuses = futures_util::future::join_all(sent).await;
        assert!(statuses.iter().all(|response| response.status == 401), "{statuses:?}");
    }
    // Another reason is recorded all the same.
    refused(&world, &world.key.events(valid()).without("x-connect-tenant"), 401).await;
    let counted = "SELECT coalesce(sum(refused), 0)::bigint FROM api_key_requests";
    until_equal("all are counted", FLOOD as i64 + 1, async || world.database.count(counted).await).await;
    world.end_ingests().await;
    let by_reason = |reason: &str| format!("{ROWS} WHERE reason = '{reason}'");
    assert_eq!(world.database.count(&by_reason("missing_header")).await, 1);
    let rows = world.database.count(&by_reason("mismatch")).await;
    // The flood may take some minutes on a busy machine.
    assert!((PER_REASON..=5 * PER_REASON).contains(&rows), "{rows}");
}

#[tokio::test]
async fn nothing_is_recorded_or_counted_for_keys_that_do_not_exist() {
    let mut world = world().await;
    let request = world.key.events(valid());
    for at in 0..30 {
        let unknown = request.clone().replacing("x-connect-key", format!("ck_unknown{at}"));
        refused(&world, &unknown, 401).await;
        refused(&world, &unknown.without("x-connect-signature"), 401).await;
    }
    refused(&world, &request.clone().without("x-connect-key"), 401).await;
    // A secret in the wrong header is no name of a key.
    let secret = world.key.secret.clone();
    refused(&world, &request.clone().replacing("x-connect-key", &secret), 401).await;
    refused(&world, &request.replacing("x-connect-tenant", "other"), 403).await;
    until_recorded(&world, 1).await;
    world.end_ingests().await;
    assert_eq!(world.database.count(ROWS).await, 1, "the one of the existing key");
    assert_eq!(world.database.count("SELECT count(*) FROM api_key_requests").await, 1);
}

#[tokio::test]
async fn a_refusal_causes_no_round_trip_of_its_own() {
    let mut world = World::with().ingests(0).workers(0).start().await;
    let recorder = world.record_statements();
    let direct = world.connectctl.clone();
    world.add_ingest().await;
    let flood = with_wrong_secret(&world.key).events(valid());
    refused(&world, &flood, 401).await;
    recorder.take("ingest_background");
    recorder.take("ingest_keys");
    for _ in 0..500 {
        refused(&world, &flood, 401).await;
    }
    world.end_ingests().await;
    let names = |pool| {
        let sent = recorder.take(pool).concat();
        let of = |name: &&String| name.contains("refused_requests") || name.contains("api_key_requests");
        sent.iter().filter(of).count()
    };
    let writes = names("ingest_background");
    assert!((1..=100).contains(&writes), "{writes} writes for 500 refusals");
    assert_eq!(names("ingest_keys"), 0);
    assert!(!direct.list(&["refusals", "--tenant", "acme"]).await.is_empty());
}

#[tokio::test]
async fn old_rows_expire_and_each_key_keeps_its_newest() {
    let world = World::with().workers(0).start().await;
    let other = world.add_key("events:ingest").await;
    let insert = |prefix: &str, count: usize, age: &str| {
        format!(
            "INSERT INTO refused_requests (tenant_id, request_id, key_prefix, at, method, route, status, reason, body_bytes)
             SELECT tenant_id, ('019' || lpad(to_hex(n), 9, '0') || '7000800000000000' || left(md5(k.prefix), 4))::uuid,
                    k.prefix, now() - interval '{age}', 'POST', '/', 401, 'stale', 0
             FROM api_keys k, generate_series(1, {count}) n WHERE k.prefix = '{prefix}'"
        )
    };
    world.database.execute(&insert(&world.key.prefix, 700, "1 hour")).await;
    world.database.execute(&insert(&other.prefix, 3, "8 days")).await;
    let plan = world.connectctl.list(&["retention", "plan"]).await;
    let due = |listed: &[Value], name: &str, field: &str| {
        listed.iter().find(|report| report["what"] == name).expect("a report")[field].clone()
    };
    assert_eq!(due(&plan, "refused_requests", "due"), 503);
    assert_eq!(due(&plan, "refused_requests", "keep"), "7d");
    let removed = world.connectctl.list(&["retention", "run"]).await;
    assert_eq!(due(&removed, "refused_requests", "removed"), 503);
    let left = refusals(&world, &["acme"]).await;
    assert_eq!(left.len(), 200);
    let oldest = "SELECT count(*) FROM refused_requests WHERE request_id::text < '01900000-01f5'";
    assert_eq!(world.database.count(oldest).await, 0);
    let again = world.connectctl.list(&["retention", "run"]).await;
    assert_eq!(due(&again, "refused_requests", "removed"), 0);
}

#[tokio::test]
async fn requests_of_each_key_are_counted() {
    let mut world = world().await;
    for _ in 0..3 {
        assert_eq!(world.http().send(&world.key.events(valid())).await.status, 200);
    }
    refused(&world, &world.key.events_at(1, valid()), 401).await;
    refused(&world, &world.key.events(valid()).without("x-connect-signature"), 401).await;
    world.end_ingests().await;
    let keys = world.connectctl.list(&["key", "list", "--tenant", "acme"]).await;
    assert_eq!(keys[0]["requestsLastDay"], serde_json::json!({"accepted": 3, "refused": 2}), "{keys:?}");
}
