//! Over simulated months the tables keep their size, and each operation reads as many rows as before.

use admin::SilentObserver;
use chrono::{DateTime, TimeDelta, Utc};
use common::settings::{Environment, RetentionSettings, Section};
use tests::TestDatabase;
use tests::dedicated_servers::Postgres;
use tokio_postgres::Client;

/// Days that are simulated, each third of which has rows, and days between two measurements.
const DAYS: i64 = 181;
const STEP: usize = 3;
const MONTH: i64 = 30;
/// From this day on nothing should change: the longest period (90 days, of notifications) and a month.
const STEADY_FROM_DAY: i64 = 120;
/// The day on which the planner gets statistics.
const ANALYZED: i64 = 159;

/// A day's rows: 400 events with a delivery each, 600 attempts, 100 idempotency keys, 100 notifications, 400 events of the
/// ledger. During the first month one delivery of each day is dead-lettered for good.
const DAY: &str = "
    INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
        SELECT tenant_id, pg_temp.id('event', at), 'lead.assigned', 'crm', '{}', at FROM day;
    INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, next_attempt_at, number)
        SELECT tenant_id, pg_temp.id('delivery', at), pg_temp.id('event', at), tenant_id, 'pending', at, at,
            400 * number + n + 1 FROM day;
    INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
        SELECT tenant_id, pg_temp.id('delivery', at), attempt, at, 200, 1 FROM day, generate_series(1, 1 + n % 2) attempt;
    UPDATE deliveries SET state = CASE WHEN day.number < 30 AND n = 7 THEN 'dead' ELSE 'delivered' END, next_attempt_at = NULL
        FROM day WHERE delivery_id = pg_temp.id('delivery', at);
    INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body, created_at)
        SELECT tenant_id, 'ck_1', at::text, '\\x00', 201, '', '{}', at FROM day WHERE n % 4 = 0;
    INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
        SELECT tenant_id, pg_temp.id('notification', at), at, 'ada@acme.test', 'lead_assigned', 'x' FROM day WHERE n % 4 = 0;
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, applied_at, warnings)
        SELECT tenant_id, at::text, 'contact.identified', 'ck_1', tenant_id, 0, at, '{}' FROM day;";

const SETUP: &str = "
    CREATE FUNCTION pg_temp.id(kind text, at timestamptz) RETURNS uuid LANGUAGE sql AS
        $$ SELECT (lpad(to_hex(floor(extract(epoch FROM at) * 1000)::bigint), 12, '0') || '7' || substr(md5(kind || at), 1, 3)
                   || '8' || substr(md5(at || kind), 1, 15))::uuid $$;
    CREATE TEMP TABLE day (tenant_id uuid, number bigint, n bigint, at timestamptz);
    SET synchronous_commit = off;";

const TABLES: &str = "deliveries, attempts, outbox, idempotency_keys, notifications, event_ledger";

/// The sizes of tables and indexes together, and the rows and index entries that were read since the last reset.
const SIZE: &str = "SELECT sum(pg_total_relation_size(name::regclass))::bigint
    FROM unnest(string_to_array($1, ', ')) AS name";
const READ: &str =
    "SELECT (SELECT sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) FROM pg_stat_user_tables)::bigint
    + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes)::bigint";

/// Measurements of one day.
#[derive(Debug, PartialEq, Eq)]
struct Measured {
    size: i64,
    removing: i64,
    listing: i64,
}

async fn number(client: &Client, query: &str, parameters: &[&(dyn tokio_postgres::types::ToSql + Sync)]) -> i64 {
    client.query_one(query, parameters).await.expect("a number").get(0)
}

async fn rows_read(client: &mut Client, operation: impl AsyncFnOnce(&mut Client)) -> i64 {
    let flush = "SELECT pg_stat_force_next_flush()";
    client.batch_execute(flush).await.expect("a flush");
    let before = number(client, READ, &[]).await;
    operation(client).await;
    client.batch_execute(flush).await.expect("a flush");
    number(client, READ, &[]).await - before
}

async fn write_day(client: &Client, number: i64, begins: DateTime<Utc>) {
    let day = "INSERT INTO day SELECT tenant_id, $1, n, $2::timestamptz + n * interval '3 minutes'
        FROM tenants, generate_series(0, 399) n WHERE slug = 'acme'";
    client.batch_execute("TRUNCATE day").await.expect("an empty day");
    client.execute(day, &[&number, &begins]).await.expect("a day");
    client.batch_execute(DAY).await.expect("the day's rows");
}

#[tokio::test]
async fn tables_keep_their_size_and_operations_their_cost_over_months() {
    // Postgres reuses a removed page of an index only when no older transaction of any database of the server runs.
    let server = Postgres::start().await;
    // While autovacuum analyzes a table, the test's own VACUUM keeps the rows that were deleted last.
    server.configure("SET autovacuum = off").await;
    let database = TestDatabase::on(server.url()).await;
    let mut client = database.connect().await;
    client.batch_execute(SETUP).await.expect("a setup");
    for table in TABLES.split(", ") {
        let without = format!("ALTER TABLE {table} SET (autovacuum_enabled = false)");
        client.batch_execute(&without).await.expect("a setting");
    }
    client.batch_execute(&crate::pipeline::plans::planner_settings()).await.expect("settings");
    let settings = Environment::from_pairs(&[("CONNECT_RETENTION_LEDGER", "90d")]);
    let settings = RetentionSettings::from_env(&settings).expect("settings");
    let begin = DateTime::from_timestamp(1_767_225_600, 0).expect("a time");
    let tenant = super::tenant(&database).await;
    let (mut measured, actor) = (Vec::new(), admin::audit::Actor::signed_in("test"));
    for day in (0..DAYS).step_by(STEP) {
        write_day(&client, day, begin + TimeDelta::days(day)).await;
        let now = begin + TimeDelta::days(day + 1);
        let removing = rows_read(&mut client, async |client| {
            admin::retention::run(client, &actor, &settings, now, &mut SilentObserver).await.expect("a run");
        })
        .await;
        // What autovacuum does when a twentieth of a table was removed. It also analyzes; here once, between two measurements.
        let vacuum = if day == ANALYZED { "VACUUM (ANALYZE)" } else { "VACUUM" };
        client.batch_execute(&format!("{vacuum} {TABLES}")).await.expect("a vacuum");
        let listing = rows_read(&mut client, async |client| {
            let newest = "SELECT * FROM deliveries WHERE tenant_id = $1 ORDER BY delivery_id DESC LIMIT 50";
            client.query(newest, &[&tenant]).await.expect("a list");
        })
        .await;
        if day >= STEADY_FROM_DAY && day % MONTH == 0 {
            let size = number(&client, SIZE, &[&TABLES]).await;
            measured.push(Measured { size, removing, listing });
        }
    }
    println!("{measured:#?}");
    let dead = "SELECT count(*) FROM deliveries WHERE state = 'dead'";
    assert_eq!(number(&client, dead, &[]).await, 10, "dead letters never expire");
    assert_eq!(number(&client, "SELECT count(*) FROM outbox", &[]).await, 10 + 10 * 400);
    let first = &measured[0];
    for later in &measured[1..] {
        assert!(later.size <= first.size + first.size / 50, "the tables grow: {measured:#?}");
        assert!(later.removing <= first.removing + first.removing / 50, "removing costs more: {measured:#?}");
        assert_eq!(later.listing, first.listing, "{measured:#?}");
    }
}
