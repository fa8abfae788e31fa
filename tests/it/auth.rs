//! Authentication of the events route (specification: Authentication; D1, D2, D5). `records/credentials.rs` has headers
//! that are missing or repeated, and what a signature covers.

use futures_util::future::join_all;
use serde_json::json;
use std::time::{Duration, Instant};
use tests::{ApiKey, HttpResponse, MAX_WAIT, World, batch, event, eventually, now, until_equal};

/// A batch that is valid, of one new client.
pub(crate) fn valid() -> Vec<u8> {
    batch(&[event("contact.identified").email("ana@example.com")])
}

/// Checks for the one response that all authentication failures share, or the one to a valid signature without the
/// tenant or scope (403).
#[track_caller]
pub(crate) fn assert_refused(status: u16, response: &HttpResponse, why: &str) {
    let code = if status == 401 { "unauthorized" } else { "forbidden" };
    assert_eq!(response.status, status, "{why}: {response:?}");
    assert_eq!(response.assert_error(status, code), "Invalid Connect credentials", "{why}");
}

#[tokio::test]
async fn rejects_a_malformed_key_or_tenant() {
    let world = World::shared().await;
    let unreadable: &[(&str, &[u8])] = &[
        ("x-connect-key", b""),
        ("x-connect-key", b"no such key"),
        ("x-connect-key", b"ck_\xff\xfe"),
        ("x-connect-key", "clé".as_bytes()),
        ("x-connect-key", &[b'k'; 5_000]),
        ("x-connect-key", b"ck_' OR '1'='1"),
        ("x-connect-tenant", b""),
        ("x-connect-tenant", b"acme\xff"),
    ];
    for (header, value) in unreadable {
        let request = world.key.events(valid()).replacing(header, value);
        let why = format!("{header}: {}", String::from_utf8_lossy(value));
        assert_refused(401, &world.http().send(&request).await, &why);
    }
}

#[tokio::test]
async fn rejects_a_malformed_signature() {
    let world = World::shared().await;
    let request = world.key.events(valid());
    let right = request.header("x-connect-signature");
    let (t, mac) = right.split_once(",v1=").expect("t=..,v1=..");
    let malformed = [
        String::new(),
        format!("v1={mac}"),
        format!("{t},"),
        t.to_owned(),
        format!("v1={mac},{t}"),
        format!("{t},v1={mac},v1={mac}"),
        format!("{t}, v1={mac}"),
        format!("{t};v1={mac}"),
        format!("{t},v1={}", &mac[..62]),
        format!("{t},v1={mac}00"),
        format!("{t},v1={}zz", &mac[..62]),
        format!("{t},v3={mac}"),
        format!("{t},V1={mac}"),
        format!("{},v1={mac}", t.replace("t=", "T=")),
        format!("{},v1={mac}", t.replace("t=", "t=+")),
        format!("{},v1={mac}", t.replace("t=", "t=-")),
        format!("t=now,v1={mac}"),
        format!("t=,v1={mac}"),
        format!("t=0{},v1={mac}", &t[2..]),
        format!("{t}.0,v1={mac}"),
        format!("t=99999999999999999999,v1={mac}"),
        format!("sha256={mac}"),
    ];
    for signature in malformed {
        let broken = request.clone().replacing("x-connect-signature", &signature);
        assert_refused(401, &world.http().send(&broken).await, &signature);
    }
    // None of them has used the signature up.
    assert_eq!(world.http().send(&request).await.status, 200);
}

#[tokio::test]
async fn all_failures_get_the_same_response() {
    let world = World::shared().await;
    let http = world.http();
    let request = world.key.events(valid());
    let unknown = request.clone().replacing("x-connect-key", "ck_unknown");
    let failures = [
        http.send(&request.clone().without("x-connect-key")).await,
        http.send(&unknown).await,
        http.send(&world.key.events_at(1, valid())).await,
        http.send(&request.clone().with_body("{}")).await,
    ];
    for failure in &failures {
        assert_refused(401, failure, "one of them");
        assert_eq!(failure.body, failures[0].body);
        let names = |response: &tests::HttpResponse| response.headers.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(failure), names(&failures[0]));
    }
}

/// Within this time after a revocation every ingest must refuse the key.
const REVOCATION_LIMIT: Duration = Duration::from_secs(1);

/// Waits until every ingest responds to a valid batch of `key` with `status`, and returns the last response. If that is
/// a refusal, no request sent later than [`REVOCATION_LIMIT`] after `since` may be accepted.
async fn until_every_ingest_responds(world: &World, key: &ApiKey, status: u16, since: Instant) -> HttpResponse {
    eventually(&format!("every ingest says {status}"), MAX_WAIT, async || {
        let mut last = None;
        for http in world.all_http() {
            let late = since.elapsed();
            let response = http.send(&key.events(valid())).await;
            if response.status != status {
                assert!(status == 200 || response.status != 200 || late < REVOCATION_LIMIT, "processed after {late:?}");
                return Err(response.status.to_string());
            }
            last = Some(response);
        }
        last.ok_or_else(|| "no ingest".to_owned())
    })
    .await
}

#[tokio::test]
async fn every_ingest_rejects_a_revoked_key_within_a_second() {
    let world = World::shared().await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    world.connectctl.json(&["key", "revoke", &world.key.prefix]).await;
    let refusal = until_every_ingest_responds(&world, &world.key, 401, Instant::now()).await;
    assert_refused(401, &refusal, "revoked");
}

#[tokio::test]
async fn every_ingest_rejects_a_removed_scope_within_a_second() {
    let world = World::shared().await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    world.connectctl.json(&["key", "scopes", &world.key.prefix, "--set", "clients:read"]).await;
    let refusal = until_every_ingest_responds(&world, &world.key, 403, Instant::now()).await;
    assert_refused(403, &refusal, "without the scope");
    world.connectctl.json(&["key", "scopes", &world.key.prefix, "--set", "events:ingest"]).await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
}

#[tokio::test]
async fn rejects_a_revoked_key_after_the_database_dropped_all_connections() {
    let world = World::start().await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    let query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()";
    world.database.execute(query).await;
    world.connectctl.json(&["key", "revoke", &world.key.prefix]).await;
    // Ingest reconnects meanwhile. The key must not keep working.
    until_every_ingest_responds(&world, &world.key, 401, Instant::now()).await;
}

#[tokio::test]
async fn rejects_every_key_that_one_statement_revoked_however_many_they_are() {
    let world = World::start().await;
    // They come before the key, and are more than ingest reads at once.
    let query = "INSERT INTO api_keys SELECT (k).* FROM (
         SELECT jsonb_populate_record(k, jsonb_build_object('prefix', 'ck_' || lpad(n::text, 16, '0'))) AS k
         FROM api_keys k, generate_series(1, 2500) n) AS copies";
    world.database.execute(query).await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    world.database.execute("UPDATE api_keys SET revoked_at = now()").await;
    let refusal = until_every_ingest_responds(&world, &world.key, 401, Instant::now()).await;
    assert_refused(401, &refusal, "revoked");
}

/// Until a request is sent, only polls cause questions, after the first one.
#[tokio::test]
async fn learns_of_changed_keys_although_the_notification_is_lost() {
    let mut world = World::with().ingests(0).start().await;
    let query = "DO $$ BEGIN
         EXECUTE replace(pg_get_functiondef('bump_key_revision'::regproc), 'connect_keys', 'nobody_listens');
     END $$";
    world.database.execute(query).await;
    let recorder = world.record_statements();
    world.add_ingest().await;
    let mut asked: Vec<String> = Vec::new();
    let polls = async || {
        asked.extend(recorder.take("ingest_keys").concat());
        asked.iter().filter(|name| *name == "key_revision.read").count() > 3
    };
    until_equal("polls without a request", true, polls).await;
    until_every_ingest_responds(&world, &world.key, 200, Instant::now()).await;
    world.connectctl.json(&["key", "revoke", &world.key.prefix]).await;
    let refusal = until_every_ingest_responds(&world, &world.key, 401, Instant::now()).await;
    assert_refused(401, &refusal, "revoked");
    let created = world.add_key("events:ingest").await;
    assert_eq!(world.http().send(&created.events(valid())).await.status, 200);
}

#[tokio::test]
async fn accepts_hex_of_any_case_and_rejects_its_replay_in_another() {
    let world = World::shared().await;
    let request = world.key.events(valid());
    let header = request.header("x-connect-signature");
    let (t, mac) = header.split_once(",v1=").expect("t=..,v1=..");
    let respelled = |mac: &str| request.clone().replacing("x-connect-signature", format!("{t},v1={mac}"));
    assert_eq!(world.http().send(&respelled(&mac.to_uppercase())).await.status, 200);
    let mixed: String =
        mac.chars().enumerate().map(|(i, c)| if i % 2 == 0 { c.to_ascii_uppercase() } else { c }).collect();
    for mac in [mac, &mixed] {
        assert_refused(401, &world.http().send(&respelled(mac)).await, mac);
    }
}

#[tokio::test]
async fn accepts_exactly_one_of_twenty_identical_concurrent_requests() {
    let world = World::shared().await;
    let request = world.key.events(valid());
    let clients = world.all_http().into_iter().cycle().take(20);
    let responses = join_all(clients.map(|http| http.send(&request))).await;
    assert_eq!(responses.iter().filter(|response| response.status == 200).count(), 1);
    for refused in responses.iter().filter(|response| response.status != 200) {
        assert_refused(401, refused, "one of nineteen");
    }
    assert_eq!(world.database.count("SELECT count(*) FROM timeline").await, 1);
}

#[tokio::test]
async fn a_restarted_ingest_rejects_signatures_used_before() {
    let mut world = World::start().await;
    let request = world.key.events(valid());
    assert_eq!(world.http().send(&request).await.status, 200);
    world.ingests.clear();
    world.add_ingest().await;
    assert_refused(401, &world.http().send(&request).await, "used before the restart");
}

#[tokio::test]
async fn accepts_a_signature_of_any_fresh_timestamp_once() {
    let world = World::shared().await;
    for ahead in (-290..=290).step_by(29) {
        let request = world.key.events_at(tests::now() + ahead, valid());
        assert_eq!(world.http().send(&request).await.status, 200, "{ahead} s");
        assert_refused(401, &world.http().send(&request).await, &format!("{ahead} s, again"));
    }
}

#[tokio::test]
async fn a_missing_scope_does_not_use_up_the_signature() {
    let world = World::shared().await;
    let key = world.add_key("clients:read,clients:write,leads:read,leads:write,credit:write").await;
    let request = key.events(valid());
    assert_refused(403, &world.http().send(&request).await, "no scope");
    world.connectctl.json(&["key", "scopes", &key.prefix, "--set", "events:ingest"]).await;
    until_equal("the scope counts", 200, async || world.http().send(&request).await.status).await;
}

#[tokio::test]
async fn another_key_or_second_makes_another_signature_of_the_same_body() {
    let world = World::shared().await;
    let second = world.add_key("events:ingest").await;
    let zeta = world.add_tenant("zeta").await;
    let t = tests::now();
    let body = batch(&[event("contact.identified").id("e-1").email("ana@example.com")]);
    let statuses = |response: tests::HttpResponse| response.json()["results"][0]["status"].clone();
    assert_eq!(statuses(world.http().send(&world.key.events_at(t, body.clone())).await), json!("accepted"));
    assert_eq!(statuses(world.http().send(&second.events_at(t, body.clone())).await), json!("duplicate"));
    let expected = json!("duplicate");
    assert_eq!(statuses(world.http().send(&world.key.events_at(t - 1, body.clone())).await), expected);
    assert_tenant_refused(&world, &zeta.events_at(t, body)).await;
}

/// The envelope names another tenant: the body is at fault, not the signature.
async fn assert_tenant_refused(world: &World, request: &tests::HttpRequest) {
    let message = world.http().send(request).await.assert_error(400, "invalid_request");
    assert!(message.contains("events[0].tenant"), "{message}");
}

#[tokio::test]
async fn stores_for_the_keys_tenant_whatever_the_case_of_the_header() {
    let world = World::shared().await;
    let zeta = world.add_tenant("zeta").await;
    let body = batch(&[event("contact.identified")
        .tenant(&format!(" {} ", zeta.tenant.to_uppercase()))
        .email("ana@example.com")]);
    let header = format!(" {}  ", zeta.tenant.to_uppercase());
    let request = zeta.events(body).replacing("x-connect-tenant", header);
    assert_eq!(world.http().send(&request).await.status, 200);
    let slugs = world.database.rows("SELECT slug FROM clients JOIN tenants USING (tenant_id)", &[]).await;
    assert_eq!(slugs, [json!({"slug": zeta.tenant})]);
}

#[tokio::test]
async fn accepts_timestamps_up_to_five_minutes_old_or_ahead() {
    let world = World::shared().await;
    let http = world.http();
    assert_refused(401, &http.send(&world.key.events_at(now() - 301, valid())).await, "too old");
    assert_refused(401, &http.send(&world.key.events_at(now() + 310, valid())).await, "too far ahead");
    assert_refused(401, &http.send(&world.key.events_at(0, valid())).await, "of 1970");
    assert_refused(401, &http.send(&world.key.events_at(now() * 1000, valid())).await, "in milliseconds");
    // Less than 300 s, because time passes while the request is under way.
    assert_eq!(http.send(&world.key.events_at(now() - 295, valid())).await.status, 200);
    assert_eq!(http.send(&world.key.events_at(now() + 300, valid())).await.status, 200);
}

/// The cost of a refusal does not reveal which keys exist (D1): before the first refusal of a prefix the database is
/// asked whether it has a newer key, whatever the reason.
#[tokio::test]
async fn the_first_refusal_of_any_key_costs_a_question() {
    let mut world = World::with().ingests(0).start().await;
    let (known, rotated, revoked) = (
        world.add_key("events:ingest").await,
        world.add_key("events:ingest").await,
        world.add_key("events:ingest").await,
    );
    world.connectctl.json(&["key", "rotate-secret", &rotated.prefix, "--overlap", "24h"]).await;
    world.connectctl.json(&["key", "revoke", &revoked.prefix]).await;
    let recorder = world.record_statements();
    world.add_ingest().await;
    for key in [&known, &rotated] {
        assert_eq!(world.http().send(&key.events(valid())).await.status, 200);
    }
    for (why, refused) in [
        ("an unknown key", world.key.events(valid()).replacing("x-connect-key", "ck_ffffffffffffffff")),
        ("a MAC that fails", known.events(valid()).with_body("{}")),
        ("a MAC that fails with both secrets", rotated.events(valid()).with_body("{}")),
        ("a revoked key", revoked.events(valid())),
    ] {
        recorder.take("ingest_keys");
        assert_refused(401, &world.http().send(&refused).await, why);
        // Others are asked now and then, far less often than the requests of this test arrive.
        let asked = recorder.take("ingest_keys").concat();
        assert!(asked.iter().any(|name| name == "key_revision.read"), "{why}: {asked:?}");
    }
}
