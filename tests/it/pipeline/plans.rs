//! A statement reads a few rows, whatever statistics the planner had when it planned the statement.
//!
//! Statements are prepared and used while the tables are nearly empty, then the tables grow without new statistics. The
//! tests count the rows that Postgres read from tables and indexes, by its own statistics.

use super::commands;
use super::workload::{self, Subscriber};
use serde_json::json;
use std::collections::BTreeSet;
use tests::{MAX_WAIT, Receiver, StatementRecorder, World, eventually, text};

/// Rounds on tiny tables: more than the executions after which a generic plan is kept.
const BEFORE: usize = 8;
/// Rounds on tables that have grown.
const AFTER: usize = 5;
/// Rows that ten statements may read from tables and from indexes, on average. They read 15 to 18. A statement that read the
/// smallest of the tables whole in each round would add more than ten. Statements are counted rather than requests, because
/// some statements are run every few seconds, however long the requests take.
const ROWS_OF_TEN_STATEMENTS: usize = 23;

/// The statistics of the planner before the tables grow.
#[derive(Clone, Copy)]
enum Statistics {
    /// The tables were never analyzed.
    None,
    /// The tables are empty.
    Empty,
    /// The tables have a few rows, so that a sequential scan is the cheapest plan.
    Few,
}

/// Who chooses the settings of the sessions.
#[derive(Clone, Copy)]
enum SessionSettings {
    /// The programs, which leave the planner few choices.
    OfPrograms,
    /// The server, as behind a pooler that drops the programs' options.
    OfServer,
}

/// Statements that this workload does not run: they look nothing up by a key of tenant data, or update rows by their primary
/// keys. Old partitions are dropped after hours; pressure is reported while requests are refused; uses of keys are written
/// each minute, counts of their requests and refused requests every few seconds; nothing is sealed under an older master key; there is no replica and no pooler that needs settings of a role, and no roles are created; and the person who
/// is erased has no dead letters and no events in the outbox that are not relayed.
const NOT_RUN: [&str; 17] = [
    "api_key_requests.add",
    "api_key_uses.record",
    "api_keys.rewrap",
    "audit_records.table_exists",
    "erasure_key.rewrap",
    "erasures.set_removed",
    "intake_pressure.remove_old",
    "intake_pressure.report",
    "people.add_dropped",
    "refused_requests.add",
    "replay_partitions.drop",
    "replication_heartbeat.beat",
    "replication_heartbeat.read",
    "role_settings.statements",
    "roles.missing",
    "roles.schema",
    "subscriptions.rewrap",
];

/// Statements of the settings area and of `connectctl find`. `tests/it/console` runs them, and `tests/it/connectctl/plans.rs`
/// shows that each finds its rows by an index.
const OF_CONSOLE: [&str; 44] = [
    "activity_minutes.last",
    "api_keys.sealed",
    "attempts.health",
    "clients.shown",
    "console_login_links.create",
    "console_login_links.is_valid",
    "console_login_links.remove_expired",
    "console_login_links.remove_of_partners",
    "console_login_links.use_up",
    "console_sessions.begin",
    "console_sessions.end",
    "console_sessions.end_all",
    "console_sessions.end_of_everybody",
    "console_sessions.end_of_person",
    "console_sessions.end_of_partners",
    "console_sessions.find",
    "console_sessions.note_use",
    "console_sessions.remove_expired",
    "console_spent_sign_ins.add",
    "console_spent_sign_ins.remove_expired",
    "deliveries.oldest_due",
    "deliveries.page",
    "deliveries.page_of",
    "found.applied",
    "found.applied_of_request",
    "found.applied_of_trace",
    "found.booking",
    "found.caused",
    "found.client",
    "found.client_by_email",
    "found.lead",
    "found.lead_by_number",
    "found.outbound",
    "leads.of_client",
    "leads.shown",
    "outbox.envelope",
    "outbox.oldest_pending",
    "queue_minutes.last",
    "queue_states.list",
    "refused_requests.find",
    "refused_requests.of_key",
    "refused_requests.of_tenant",
    "tenants.settings",
    "usage_counters.since",
];

#[tokio::test]
async fn tables_that_were_never_analyzed_are_not_scanned() {
    assert_grown_tables_are_not_scanned(Statistics::None, SessionSettings::OfPrograms).await;
}

#[tokio::test]
async fn tables_analyzed_while_empty_are_not_scanned() {
    assert_grown_tables_are_not_scanned(Statistics::Empty, SessionSettings::OfPrograms).await;
}

#[tokio::test]
async fn tables_analyzed_with_few_rows_are_not_scanned() {
    assert_grown_tables_are_not_scanned(Statistics::Few, SessionSettings::OfPrograms).await;
}

#[tokio::test]
async fn never_analyzed_tables_are_not_read_whole_with_the_servers_settings() {
    assert_grown_tables_are_not_scanned(Statistics::None, SessionSettings::OfServer).await;
}

/// Programs behind a recorder of their statements.
async fn recorded_world(settings: SessionSettings) -> (World, StatementRecorder) {
    let mut world =
        World::with().ingests(0).workers(0).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let recorder = match settings {
        SessionSettings::OfPrograms => StatementRecorder::without_delay(world.database.url()),
        SessionSettings::OfServer => StatementRecorder::of_names_without_options(world.database.url()),
    };
    world.set("DATABASE_URL", recorder.url());
    // A delivery whose first attempt fails is dead.
    world.set("CONNECT_WEBHOOK_ATTEMPTS", "1");
    world.connectctl = world.connectctl.clone().and("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    world.add_worker().await;
    world.add_dispatcher().await;
    (world, recorder)
}

async fn assert_grown_tables_are_not_scanned(statistics: Statistics, settings: SessionSettings) {
    let (mut world, recorder) = recorded_world(settings).await;
    let receiver = Receiver::http();
    let created = world.subscribe(&receiver.url("/hook")).await;
    let subscriber = Subscriber { id: text(&created["id"]).to_owned(), receiver };
    world.database.execute(WITHOUT_AUTOVACUUM).await;
    if matches!(statistics, Statistics::Empty) {
        world.database.execute("ANALYZE").await;
    }
    let mut run = BTreeSet::new();
    for number in 0..BEFORE {
        workload::run_round(&world, &subscriber, number).await;
        if number == 0 && matches!(statistics, Statistics::Few) {
            world.database.execute("ANALYZE").await;
        }
        run.extend(recorder.take_names());
    }
    commands::of_all_tenants(&world).await;
    world.database.execute(GROW).await;
    run.extend(recorder.take_names());
    world.database.execute("SELECT pg_stat_reset()").await;
    for number in BEFORE..BEFORE + AFTER {
        workload::run_round(&world, &subscriber, number).await;
        commands::run_all(&world, &subscriber, number).await;
        workload::lead_events(&world, LEADS_OF, number).await;
    }
    let executed = assert_every_statement_was_run(&recorder, run).await;
    // A session reports what it has read at the latest when it ends.
    for program in world.workers.iter_mut().chain(&mut world.ingests).chain(&mut world.dispatchers) {
        assert!(program.terminate().await.success());
    }
    assert_few_rows_were_read(&world, executed).await;
}

/// Waits until every statement of the programs has been run, before or after the tables have grown. The number of statements
/// that were executed after `run` was recorded.
async fn assert_every_statement_was_run(recorder: &StatementRecorder, mut run: BTreeSet<String>) -> usize {
    let registered = [
        ingest::store::STATEMENTS,
        worker::store::STATEMENTS,
        dispatcher::store::STATEMENTS,
        admin::store::STATEMENTS,
    ]
    .concat()
    .concat();
    let name = |statement: &str| {
        let first = statement.trim_start().lines().next().unwrap_or_default();
        first.strip_prefix("-- ").expect("a statement has a name").to_owned()
    };
    let mut missing: BTreeSet<String> = registered.iter().map(|statement| name(statement.as_str())).collect();
    for name in NOT_RUN.into_iter().chain(OF_CONSOLE) {
        assert!(missing.remove(name), "no statement {name}");
    }
    let mut executed = 0;
    // Those of gauges are run every few seconds.
    eventually("every statement was run", MAX_WAIT, async || {
        let taken = recorder.take_names();
        executed += taken.len();
        run.extend(taken);
        missing.retain(|name| !run.contains(name));
        if missing.is_empty() { Ok(()) } else { Err(format!("not run: {missing:?}")) }
    })
    .await;
    executed
}

async fn assert_few_rows_were_read(world: &World, executed: usize) {
    for row in world.database.rows(READ, &[]).await {
        let read = usize::try_from(row["read"].as_i64().expect("a count")).expect("not negative");
        println!("{row} by {executed} statements");
        assert!(
            read * 10 <= executed * ROWS_OF_TEN_STATEMENTS,
            "{}: {read} rows for {executed} statements; by table: {}",
            row["of"],
            json!(world.database.rows(BY_TABLE, &[]).await)
        );
        assert!(read > 0, "nothing was counted: {row}");
    }
}

const WITHOUT_AUTOVACUUM: &str = "
    DO $$
    DECLARE name regclass;
    BEGIN
        FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
        END LOOP;
    END $$";

/// Number of the person who gets thousands of closed leads. They share an external id with thousands of other people's.
const LEADS_OF: usize = 0;

/// 20,000 clients with leads, trips and all that hangs on them of one tenant, and 2,000 tenants with one each. They share
/// emails, external ids and phones across tenants, as test data of partners does.
const GROW: &str = "
    CREATE FUNCTION pg_temp.id(kind text, n bigint) RETURNS uuid LANGUAGE sql AS
        $$ SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(kind || n), 1, 3)
                   || '8' || substr(md5(n || kind), 1, 15))::uuid $$;
    CREATE TEMP TABLE grown AS
        SELECT t.tenant_id, n, n % 20000 AS person FROM tenants t, generate_series(1, 20000) n WHERE t.slug = 'acme';
    INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, created_at)
        SELECT pg_temp.id('tenant', n), 'small-' || n, 'Small', 'ENQ', true, now() FROM generate_series(1, 2000) n;
    INSERT INTO grown SELECT tenant_id, 100000 + row_number() OVER (), 7 FROM tenants WHERE slug LIKE 'small-%';
    INSERT INTO members (tenant_id, email, name, created_at)
        SELECT tenant_id, 'small@example.com', 'Small', now() FROM tenants WHERE slug LIKE 'small-%';
    INSERT INTO subscriptions (tenant_id, subscription_id, url, secret_sealed, created_at)
        SELECT tenant_id, pg_temp.id('subscription', row_number() OVER ()), 'https://example.com', '\\x00', now()
        FROM tenants WHERE slug LIKE 'small-%';
    INSERT INTO api_keys (tenant_id, prefix, name, secret_sealed, scopes, created_at)
        SELECT tenant_id, 'ck_' || lpad(to_hex(row_number() OVER ()), 16, '0'), 'Small', '\\x00', '{events:ingest}', now()
        FROM tenants WHERE slug LIKE 'small-%';
    INSERT INTO enquiry_counters (tenant_id, year, last)
        SELECT tenant_id, extract(year FROM now()), 1 FROM tenants WHERE slug LIKE 'small-%';
    INSERT INTO usage_counters (tenant_id, month, writes)
        SELECT tenant_id, date_trunc('month', now()), 1 FROM tenants WHERE slug LIKE 'small-%';
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, external_id, client_type,
                         created_at, updated_at)
        SELECT tenant_id, pg_temp.id('client', n), 'Grown', 'p' || person || '@x.com', 'p' || person || '@x.com',
               '1' || person, '1' || person, 'x' || person, 'individual', now(), now() FROM grown;
    INSERT INTO clients (tenant_id, client_id, name, client_type, company_domain, created_at, updated_at)
        SELECT tenant_id, pg_temp.id('account', n), 'Grown', 'company', 'grown' || person || '.example', now(), now()
        FROM grown;
    INSERT INTO account_contacts (tenant_id, account_id, email_key, email, created_at, updated_at)
        SELECT tenant_id, pg_temp.id('account', n), 'p' || person || '@x.com', 'p', now(), now() FROM grown;
    INSERT INTO travelers (tenant_id, client_id, position, name, type)
        SELECT tenant_id, pg_temp.id('client', n), position, 'Al', 'adult' FROM grown, generate_series(0, 1) position;
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, brief, created_at,
                       updated_at)
        SELECT tenant_id, pg_temp.id('lead', n), pg_temp.id('client', n), 'OLD-' || n, 'l' || person, 'Grown',
               'inquiry', '{}', now(), now() FROM grown;
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, brief, created_at,
                       updated_at)
        SELECT tenant_id, pg_temp.id('closed', n), client_id, 'CLOSED-' || n, 'shared', 'Grown', 'lost', '{}', now(),
               now()
        FROM clients, generate_series(1, 5000) n WHERE email_key = 'round0@company0.example';
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, brief, created_at,
                       updated_at)
        SELECT tenant_id, pg_temp.id('sharing', n), pg_temp.id('client', n), 'SHARING-' || n, 'shared', 'Grown',
               'inquiry', '{}', now(), now()
        FROM grown WHERE n <= 5000;
    INSERT INTO trips (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)
        SELECT tenant_id, pg_temp.id('trip', n), pg_temp.id('lead', n), 'Grown', '{}', now(), now() FROM grown;
    INSERT INTO proposals (tenant_id, proposal_id, trip_id, status, created_at)
        SELECT tenant_id, pg_temp.id('proposal', n), pg_temp.id('trip', n), 'draft', now() FROM grown;
    INSERT INTO itineraries (tenant_id, proposal_id, snapshot, updated_at)
        SELECT tenant_id, pg_temp.id('proposal', n), '{}', now() FROM grown;
    INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
        SELECT tenant_id, pg_temp.id('notification', n), now(), 'small@example.com', 'lead_assigned', 'x' FROM grown;
    INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, body, created_at)
        SELECT tenant_id, 'ck_old', 'key-' || n, '\\x00', 201, '{}', now() FROM grown;
    INSERT INTO replay_entries (tenant_id, key_prefix, mac, signed_at)
        SELECT tenant_id, 'ck_old', decode(md5(n::text), 'hex'), now() FROM grown;
    INSERT INTO invoices (tenant_id, booking_ref, lead_id, trip_id, client_id, credit_state, created_at, updated_at)
        SELECT tenant_id, 'r' || n, pg_temp.id('lead', n), pg_temp.id('trip', n), pg_temp.id('client', n), 'none',
               now(), now() FROM grown;
    INSERT INTO discoveries (tenant_id, discovery_id, client_id, lead_id, discovery, created_at, updated_at)
        SELECT tenant_id, pg_temp.id('discovery', n), pg_temp.id('client', n), pg_temp.id('lead', n), '{}', now(),
               now() FROM grown;
    INSERT INTO traveller_profiles (tenant_id, client_id, profile, updated_at)
        SELECT tenant_id, pg_temp.id('client', n), '{}', now() FROM grown;
    INSERT INTO client_credits (tenant_id, client_id, as_of)
        SELECT tenant_id, pg_temp.id('client', n), now() FROM grown;
    INSERT INTO event_ledger (tenant_id, event_id, event_type, key_prefix, request_id, ordinal, applied_at, warnings)
        SELECT tenant_id, 'old-' || n, 'contact.identified', 'ck_old', tenant_id, 0, now(), '{}' FROM grown;
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin)
        SELECT tenant_id, pg_temp.id('client', n), pg_temp.id('entry', n), 'old-' || n, 'contact.identified', now(),
               'old' FROM grown;
    INSERT INTO inbox_messages (tenant_id, lead_id, message_id, at, kind)
        SELECT tenant_id, pg_temp.id('lead', n), pg_temp.id('message', n), now(), 'message' FROM grown;
    INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at, relayed_at)
        SELECT tenant_id, pg_temp.id('event', n), 'lead.assigned', 'crm', '{}', now(), now() FROM grown;
    INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at)
        SELECT tenant_id, pg_temp.id('delivery', n), pg_temp.id('event', n), pg_temp.id('subscription', n),
               'delivered', now() FROM grown;
    INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
        SELECT tenant_id, pg_temp.id('delivery', n), 1, now(), 200, 1 FROM grown;
    INSERT INTO audit_records (tenant_id, audit_id, at, who, interface, action, target)
        SELECT tenant_id, pg_temp.id('audit', n), now(), 'ana', 'connectctl', 'tenant.set', 'acme' FROM grown;";

/// Rows read from tables, and entries read from indexes. The gauge of ended deliveries counts them all, for at most a
/// fiftieth of the time whatever their number, and for no request. The gauge of sealed values reads all keys and
/// subscriptions four times a minute.
const READ: &str = "
    SELECT 'tables' AS of, sum(CASE WHEN relname IN ('deliveries', 'api_keys', 'subscriptions') THEN 0
                               ELSE coalesce(seq_tup_read, 0) END
                               + coalesce(idx_tup_fetch, 0))::bigint AS read
    FROM pg_stat_user_tables WHERE schemaname = 'public'
    UNION ALL
    SELECT 'indexes', sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = 'public'";

const BY_TABLE: &str = "
    SELECT t.relname, t.seq_tup_read, t.idx_tup_fetch,
           (SELECT json_object_agg(i.indexrelname, i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid) AS indexes
    FROM pg_stat_user_tables t WHERE coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0) > 100
    ORDER BY coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0) DESC LIMIT 12";
