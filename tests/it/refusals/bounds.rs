//! What is recorded is bounded, and recording costs a request nothing.

use super::{refusals, refused, until_recorded, valid, with_wrong_secret, world};
use serde_json::Value;
use tests::{StatementRecorder, World, until_equal};

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
    let recorder = StatementRecorder::in_front_of(world.database.url());
    let direct = world.connectctl.clone();
    world.set("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    let flood = with_wrong_secret(&world.key).events(valid());
    refused(&world, &flood, 401).await;
    recorder.take("ingest_replay");
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
    let writes = names("ingest_replay");
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
