//! A statement reads a few rows, whatever the planner knew of its tables when it planned the statement.
//!
//! Statements are prepared and used while the tables are nearly empty, then the tables grow without the planner being
//! told. Counted are the rows that Postgres read from tables and indexes, as its own statistics say.

use super::workload::{self, Subscriber};
use serde_json::json;
use std::collections::BTreeSet;
use tests::{PATIENCE, Receiver, StatementRecorder, World, eventually, text};

/// Rounds on tiny tables: more than the executions after which a generic plan is kept.
const BEFORE: usize = 8;
/// Rounds on tables that have grown.
const AFTER: usize = 5;
/// Rows that a request may read from tables and from indexes, on average; a request has about ten statements. A statement
/// that read the smallest of the tables whole in each round would read twice as many.
const ROWS: i64 = 32;

/// What the planner is told of the tables before they grow.
#[derive(Clone, Copy)]
enum Statistics {
    /// Nothing.
    None,
    /// That they are empty.
    Empty,
    /// That they have a few rows, so that reading one whole is the cheapest way.
    Few,
}

/// Statements of the programs that this workload does not need: they look nothing up by a key of agency data.
/// Old partitions are dropped after hours; pressure is reported while requests are refused.
const NOT_RUN: [&str; 3] = ["intake_pressure.remove_old", "intake_pressure.report", "replay_partitions.drop"];

#[tokio::test]
async fn tables_that_were_never_analyzed_are_not_read_whole() {
    grown_tables_are_not_read_whole(Statistics::None).await;
}

#[tokio::test]
async fn tables_that_were_analyzed_while_empty_are_not_read_whole() {
    grown_tables_are_not_read_whole(Statistics::Empty).await;
}

#[tokio::test]
async fn tables_that_were_analyzed_with_a_few_rows_are_not_read_whole() {
    grown_tables_are_not_read_whole(Statistics::Few).await;
}

/// Programs behind a recorder of their statements.
async fn recorded_world() -> (World, StatementRecorder) {
    let mut world =
        World::with().ingests(0).workers(0).set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
    let recorder = StatementRecorder::of_names(world.database.url());
    world.set("DATABASE_URL", recorder.url());
    world.add_ingest().await;
    world.add_worker().await;
    world.add_dispatcher().await;
    (world, recorder)
}

async fn grown_tables_are_not_read_whole(statistics: Statistics) {
    let (mut world, recorder) = recorded_world().await;
    let receiver = Receiver::http();
    let create = ["subscription", "create", "--tenant", "acme", "--url", &receiver.url("/hook")];
    let created = world.connectctl.json(&create).await;
    let subscriber = Subscriber { id: text(&created["id"]).to_owned(), receiver };
    world.database.execute(WITHOUT_AUTOVACUUM).await;
    if matches!(statistics, Statistics::Empty) {
        world.database.execute("ANALYZE").await;
    }
    let mut run = BTreeSet::new();
    for number in 0..BEFORE {
        workload::round(&world, &subscriber, number).await;
        if number == 0 && matches!(statistics, Statistics::Few) {
            world.database.execute("ANALYZE").await;
        }
        run.append(&mut recorder.take_names());
    }
    world.database.execute(GROW).await;
    world.database.execute("SELECT pg_stat_reset()").await;
    for number in BEFORE..BEFORE + AFTER {
        workload::round(&world, &subscriber, number).await;
        workload::commands(&world, number).await;
        workload::lead_events(&world, LEADS_OF, number).await;
    }
    every_statement_was_run(&recorder, run).await;
    // What a session has read is counted at the latest when it ends.
    for program in world.workers.iter_mut().chain(&mut world.ingests).chain(&mut world.dispatchers) {
        assert!(program.terminate().await.success());
    }
    assert_few_rows_were_read(&world).await;
}

/// Every statement of the programs has been run since the tables have grown, or before as one that runs once.
async fn every_statement_was_run(recorder: &StatementRecorder, mut run: BTreeSet<String>) {
    let all = [ingest::store::STATEMENTS, worker::store::STATEMENTS, dispatcher::store::STATEMENTS].concat();
    let name = |statement: &str| {
        let first = statement.trim_start().lines().next().unwrap_or_default();
        first.strip_prefix("-- ").expect("a statement has a name").to_owned()
    };
    let mut missing: BTreeSet<String> = all.into_iter().map(name).collect();
    for name in NOT_RUN {
        assert!(missing.remove(name), "no statement {name}");
    }
    // Those of gauges are run every few seconds.
    eventually("every statement was run", PATIENCE, async || {
        run.append(&mut recorder.take_names());
        missing.retain(|name| !run.contains(name));
        if missing.is_empty() { Ok(()) } else { Err(format!("not run: {missing:?}")) }
    })
    .await;
}

async fn assert_few_rows_were_read(world: &World) {
    let requests = i64::try_from(AFTER).expect("few") * (workload::REQUESTS + workload::LEAD_EVENTS);
    for row in world.database.rows(READ, &[]).await {
        let read = row["read"].as_i64().expect("a count");
        println!("{row}");
        assert!(
            read <= requests * ROWS,
            "{}: {read} rows for {requests} requests; by table: {}",
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
        SELECT tenant_id, pg_temp.id('delivery', n), 1, now(), 200, 1 FROM grown;";

/// Rows read from tables, and entries read from indexes. The gauge of ended deliveries counts them all, for at most a
/// fiftieth of the time whatever their number, and for no request.
const READ: &str = "
    SELECT 'tables' AS of, sum(CASE relname WHEN 'deliveries' THEN 0 ELSE coalesce(seq_tup_read, 0) END
                               + coalesce(idx_tup_fetch, 0))::bigint AS read
    FROM pg_stat_user_tables WHERE schemaname = 'public'
    UNION ALL
    SELECT 'indexes', sum(idx_tup_read)::bigint FROM pg_stat_user_indexes WHERE schemaname = 'public'";

const BY_TABLE: &str = "
    SELECT t.relname, t.seq_tup_read, t.idx_tup_fetch,
           (SELECT json_object_agg(i.indexrelname, i.idx_tup_read) FROM pg_stat_user_indexes i WHERE i.relid = t.relid) AS indexes
    FROM pg_stat_user_tables t WHERE coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0) > 100
    ORDER BY coalesce(t.seq_tup_read, 0) + coalesce(t.idx_tup_fetch, 0) DESC LIMIT 12";
