//! A filled database of an earlier schema is migrated while programs write: `connectctl migrate` is killed in the middle, and another
//! run continues.
//!
//! The programs of an earlier release are not part of these tests: `make upgrade` builds and runs them. Here their writes are
//! statements on the tables that the later migrations change.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use tests::roles::ROLE_PREFIX;
use tests::{Connectctl, TestDatabase, World, event, text};

/// The first migrations. The database of the previous release has the first three.
const EARLIER: [&str; 11] = [
    include_str!("../../../sql/V1__initial_schema.sql"),
    include_str!("../../../sql/V2__deliveries_wait_and_are_replayed.sql"),
    include_str!("../../../sql/V3__outbound_events_know_their_trace.sql"),
    include_str!("../../../sql/V4__one_access_path_for_each_lookup.sql"),
    include_str!("../../../sql/V5__one_access_path_for_each_delivery_lookup.sql"),
    include_str!("../../../sql/V6__open_leads_of_a_client.sql"),
    include_str!("../../../sql/V7__intake_pressure.sql"),
    include_str!("../../../sql/V8__subscriptions_seal_their_urls.sql"),
    include_str!("../../../sql/V9__partitions_are_made_by_a_function.sql"),
    include_str!("../../../sql/V10__several_writes_are_counted_at_once.sql"),
    include_str!("../../../sql/V11__leads_of_a_client_by_external_id.sql"),
];
/// Number of the migrations that the database of the previous release has.
const PREVIOUS_RELEASE: usize = 3;

/// Rows in each table before the migration.
const ROWS: i64 = 20_000;

/// Rows of one writer, or all that the tables hold at first; `%` is the SQL of a series `n`.
const WRITE: &str = "
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, client_type, created_at, updated_at)
        SELECT tenant_id, md5('client' || n)::uuid, 'Ana', n || '@a.test', n || '@a.test', 'individual', now(), now() FROM acme, %;
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, title, stage, brief, created_at, updated_at)
        SELECT tenant_id, md5('lead' || n)::uuid, md5('client' || n)::uuid, 'ENQ-' || n, 'Rome', 'inquiry', '{}', now(), now() FROM acme, %;
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, applied_at, warnings)
        SELECT tenant_id, $$event-$$ || n, 'contact.identified', 'ck_1', tenant_id, 0, now(), '{}' FROM acme, %;
    INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at, relayed_at)
        SELECT tenant_id, md5('event' || n)::uuid, 'lead.assigned', 'crm', '{}', now(), now() FROM acme, %;
    INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, attempts, created_at)
        SELECT tenant_id, md5('delivery' || n)::uuid, md5('event' || n)::uuid, tenant_id, 'delivered', 1, now() FROM acme, %;
    INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
        SELECT tenant_id, md5('notification' || n)::uuid, now(), 'ada@acme.test', 'lead_assigned', 'x' FROM acme, %;
    INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, body, created_at)
        SELECT tenant_id, 'ck_1', n::text, '\\x00', 201, '{}', now() FROM acme, %";

fn write(series: &str) -> String {
    WRITE.replace("acme, %", &format!("(SELECT tenant_id FROM tenants WHERE slug = 'acme') acme, {series}"))
}

/// A database with the first migrations, as their files have them, and the history.
async fn migrated_to(version: usize) -> TestDatabase {
    let (database, template) = (TestDatabase::empty().await, TestDatabase::new().await);
    for migration in &EARLIER[..version] {
        database.execute(migration).await;
    }
    let history = &format!(
        "SELECT version, name, checksum FROM refinery_schema_history WHERE version <= {version} ORDER BY version"
    );
    database
        .execute("CREATE TABLE refinery_schema_history (version int4 PRIMARY KEY, name varchar(255), applied_on varchar(255), checksum varchar(255))")
        .await;
    for row in template.rows(history, &[]).await {
        let (name, checksum) = (text(&row["name"]), text(&row["checksum"]));
        let add = format!(
            "INSERT INTO refinery_schema_history VALUES ({}, '{name}', '', '{checksum}')",
            row["version"]
        );
        database.execute(&add).await;
    }
    database
}

/// A database of the previous release with a tenant and rows.
async fn filled() -> TestDatabase {
    let database = migrated_to(PREVIOUS_RELEASE).await;
    let tenant = "INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, created_at)
                  VALUES (gen_random_uuid(), 'acme', 'Acme', 'ENQ', now())";
    database.execute(tenant).await;
    database.execute(&write(&format!("generate_series(1, {ROWS}) n"))).await;
    database
}

/// Writes row after row until it is told to stop; every write must succeed.
async fn write_until_stopped(url: String, next: Arc<AtomicI64>, stop: Arc<AtomicBool>) {
    let (client, connection) =
        tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("a connection");
    tokio::spawn(connection);
    while !stop.load(Ordering::Relaxed) {
        let number = next.fetch_add(1, Ordering::Relaxed);
        client.batch_execute(&write(&format!("(VALUES ({number})) v (n)"))).await.expect("writes go on");
    }
}

/// Runs `connectctl migrate` until it builds an index of a table, and kills it. Writes to the table succeed meanwhile.
async fn kill_while_building(database: &TestDatabase, connectctl: &Connectctl, table: &str, index: &str) {
    // The building waits for this transaction, once the index exists. Before, it may wait for autovacuum.
    let holder = database.connect().await;
    let lock = format!("BEGIN; LOCK TABLE {table} IN ROW EXCLUSIVE MODE");
    holder.batch_execute(&lock).await.expect("a lock");
    let mut run = connectctl.start(&["migrate"]);
    let waits = format!(
        "application_name = 'connectctl' AND wait_event_type = 'Lock' AND wait_event = 'virtualxid'
             AND query LIKE '%{index}%'"
    );
    database.until_sessions(&waits, 1).await;
    let writer = database.connect().await;
    // It changes no row, and needs the lock that a write needs.
    let write = format!("SET lock_timeout = '1s'; DELETE FROM {table} WHERE false");
    writer.batch_execute(&write).await.expect("the building blocks no write");
    run.kill().await.expect("a running command");
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'connectctl'";
    database.execute(end).await;
    let invalid =
        format!("SELECT count(*) FROM pg_index WHERE indexrelid = to_regclass('{index}') AND NOT indisvalid");
    assert_eq!(database.count(&invalid).await, 1, "as an interrupted run leaves it");
    holder.batch_execute("COMMIT").await.expect("a transaction");
}

#[tokio::test]
async fn a_killed_migration_of_a_live_database_is_continued() {
    let database = filled().await;
    let connectctl = Connectctl::for_database(database.url());
    let (next, stop) = (Arc::new(AtomicI64::new(ROWS + 1)), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            tokio::spawn(write_until_stopped(database.url().to_owned(), Arc::clone(&next), Arc::clone(&stop)))
        })
        .collect();

    let index_of = |name| {
        format!(
            "SELECT indexrelid::bigint FROM pg_index WHERE indexrelid = to_regclass('{name}') AND indisvalid"
        )
    };
    let recorded =
        |version| format!("SELECT count(*) FROM refinery_schema_history WHERE version = {version}");
    kill_while_building(&database, &connectctl, "leads", "leads_enquiry_number_building").await;
    assert_eq!(database.count(&recorded(4)).await, 0);
    let emails = database.count(&index_of("clients_tenant_email_key")).await;
    kill_while_building(&database, &connectctl, "event_ledger", "event_ledger_applied_at").await;
    assert_eq!(database.count(&recorded(15)).await, 0);
    let index = &index_of("deliveries_settled");
    let built = database.count(index).await;

    let report = connectctl.json(&["migrate", "--roles", "--role-prefix", ROLE_PREFIX]).await;
    assert!(text(&report["applied"][0]).starts_with("V15__"), "{report}");
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("every write succeeded");
    }
    assert_eq!(database.count(index).await, built, "what was built is not built again");
    assert_eq!(database.count(&index_of("clients_tenant_email_key")).await, emails);
    let left = "SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
                WHERE c.relnamespace = 'public'::regnamespace AND NOT i.indisvalid";
    assert_eq!(database.count(left).await, 0);
    let progress = "SELECT count(*) FROM pg_class WHERE relname = 'schema_migration_progress'";
    assert_eq!(database.count(progress).await, 0);
    let written = next.load(Ordering::Relaxed) - 1;
    assert!(written > ROWS, "nothing was written meanwhile");
    for table in
        ["clients", "leads", "event_ledger", "outbox", "deliveries", "notifications", "idempotency_keys"]
    {
        assert_eq!(database.count(&format!("SELECT count(*) FROM {table}")).await, written, "{table}");
    }
    assert_works(database).await;
}

/// What the catalogs say of the schema: columns, indexes, constraints, functions, triggers, comments.
const SCHEMA: &str = "
    SELECT format('%s.%s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull) AS object
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
    UNION ALL SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT format('%s %s %s', conrelid::regclass, conname, pg_get_constraintdef(oid))
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    UNION ALL SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal
    UNION ALL SELECT format('%s: %s', pg_describe_object(classoid, objoid, objsubid), description)
        FROM pg_description d WHERE EXISTS (SELECT FROM pg_identify_object(classoid, objoid, objsubid) i
                                            WHERE i.schema = 'public' OR i.identity LIKE 'public.%')
    ORDER BY 1";

#[tokio::test]
async fn migrations_that_build_indexes_concurrently_make_the_schema_of_their_files() {
    let by_files = migrated_to(EARLIER.len()).await;
    Connectctl::for_database(by_files.url()).json(&["migrate"]).await;
    let expected = by_files.rows(SCHEMA, &[]).await;
    let leads_open = |row: &serde_json::Value| text(&row["object"]).starts_with("CREATE INDEX leads_open");
    assert!(expected.iter().any(leads_open), "{expected:?}");
    let connectctl = TestDatabase::new().await;
    let schema = connectctl.rows(SCHEMA, &[]).await;
    let differences: Vec<_> = schema
        .iter()
        .filter(|object| !expected.contains(object))
        .chain(expected.iter().filter(|object| !schema.contains(object)))
        .collect();
    assert!(differences.is_empty(), "{differences:#?}");
}

/// Checks that the programs of this release work with the migrated database.
async fn assert_works(database: TestDatabase) {
    let mut world = World::with().ingests(0).workers(0).start().await;
    world.set("DATABASE_URL", database.url());
    world.connectctl = world.connectctl.clone().and("DATABASE_URL", database.url());
    let create = ["key", "create", "--tenant", "acme", "--name", "k", "--scopes", "events:ingest"];
    world.key = tests::ApiKey::of("acme", &world.connectctl.json(&create).await);
    world.add_worker().await;
    world.add_ingest().await;
    world.accept(event("enquiry.submitted").email("ana@example.com")).await;
    let report = world.connectctl.run(&["doctor", "--json", "--role-prefix", ROLE_PREFIX]).await.json();
    let of_schema = |finding: &&serde_json::Value| text(&finding["check"]).starts_with("schema.");
    let findings = report["findings"].as_array().expect("findings");
    assert_eq!(findings.iter().find(of_schema), None, "{report}");
}
