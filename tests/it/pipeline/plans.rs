//! Each statement of a program finds its rows by an index, whatever statistics the planner has, and reads few of them.

use common::db::Sql;
use serde_json::Value;
use tests::{TestDatabase, text};
use tokio_postgres::Client;

/// The planner's cost of a scan by a whole key, also for several keys. All rows of one of the tenants cost more.
const COST_OF_FEW: f64 = 60.0;
/// Rows of tables that hold something of the whole deployment.
const FEW: f64 = 100.0;

/// A scan of a table within a plan.
#[derive(Debug, PartialEq, PartialOrd)]
struct Scan {
    table: String,
    /// The index, and its condition. None of a sequential scan.
    by: Option<(String, String)>,
    rows: f64,
    cost: f64,
    /// It ends once it has found enough.
    is_limited: bool,
}

/// The session's settings of the programs, with which a plan holds for all values of the parameters.
pub(crate) fn planner_settings() -> String {
    let options = common::db::planner_options();
    options.split("-c ").skip(1).map(|option| format!("SET {option};")).collect()
}

/// The scans of a statement. A generic plan does not depend on the values of the parameters, so nulls are passed.
async fn scans(client: &Client, statement: &str) -> Vec<Scan> {
    let parameters = client.prepare(statement).await.expect("a statement").params().len();
    let nulls = if parameters == 0 { String::new() } else { format!("({})", vec!["NULL"; parameters].join(", ")) };
    client.batch_execute(&format!("PREPARE explained AS {statement}")).await.expect("a statement");
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE explained{nulls}");
    let row = client.query_one(&explain, &[]).await.expect("a plan");
    client.batch_execute("DEALLOCATE explained").await.expect("it is prepared");
    let mut scans = Vec::new();
    add_scans(&row.get::<_, Value>(0)[0]["Plan"], false, &mut scans);
    scans
}

fn add_scans(plan: &Value, is_limited: bool, scans: &mut Vec<Scan>) {
    let kind = text(&plan["Node Type"]);
    if ["Seq Scan", "Index Scan", "Index Only Scan"].contains(&kind) {
        let name = |field: &str| plan[field].as_str().unwrap_or_default().to_owned();
        scans.push(Scan {
            table: name("Relation Name"),
            by: (kind != "Seq Scan").then(|| (name("Index Name"), name("Index Cond"))),
            rows: plan["Plan Rows"].as_f64().expect("a number"),
            cost: plan["Total Cost"].as_f64().expect("a number"),
            is_limited,
        });
    }
    let is_limited = kind == "Limit" || is_limited && !["Sort", "Aggregate"].contains(&kind);
    for part in plan["Plans"].as_array().into_iter().flatten() {
        add_scans(part, is_limited, scans);
    }
}

#[tokio::test]
async fn statements_read_few_rows_and_those_of_requests_by_the_same_indexes_with_and_without_statistics() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    client.batch_execute(WITHOUT_AUTOVACUUM).await.expect("settings");
    client.batch_execute(GROW).await.expect("rows");
    client.batch_execute(&planner_settings()).await.expect("settings");
    let programs = [ingest::store::STATEMENTS, worker::store::STATEMENTS, dispatcher::store::STATEMENTS];
    let statements: Vec<&str> = programs.concat().concat().iter().map(|sql| sql.as_str().trim()).collect();
    let mut without_statistics = Vec::new();
    for statement in &statements {
        without_statistics.push(scans(&client, statement).await);
    }
    client.batch_execute("ANALYZE").await.expect("statistics");
    for (statement, without) in statements.into_iter().zip(without_statistics) {
        let scans = scans(&client, statement).await;
        for scan in &scans {
            let is_few = match scan.by {
                Some(_) => scan.cost < COST_OF_FEW,
                None => scan.rows < FEW,
            };
            assert!(is_few || scan.is_limited, "{scan:?} of {statement}");
        }
        let by = |scans: &[Scan]| {
            let mut by: Vec<_> = scans.iter().map(|scan| (scan.table.clone(), scan.by.clone())).collect();
            by.sort();
            by
        };
        assert_eq!(by(&scans), by(&without), "{statement}");
    }
    // Those of operators and of retention scan no table of tenants.
    let of_operators = [admin::store::STATEMENTS, common::retention::STATEMENTS].concat().concat();
    for statement in of_operators.into_iter().map(Sql::as_str) {
        for scan in scans(&client, statement).await {
            assert!(scan.by.is_some() || scan.rows < FEW, "{scan:?} of {statement}");
        }
    }
}

/// The rows of deliveries and of pending events that a plan has read.
fn rows_read(plan: &Value) -> f64 {
    let number = |field: &str| plan[field].as_f64().unwrap_or_default();
    let own = (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops");
    let own =
        if plan["Relation Name"] == "deliveries" || plan["Relation Name"] == "outbox_pending" { own } else { 0.0 };
    own + plan["Plans"].as_array().into_iter().flatten().map(rows_read).sum::<f64>()
}

#[tokio::test]
async fn a_round_of_sending_reads_a_bounded_number_of_rows_whatever_is_due() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    client.batch_execute(&planner_settings()).await.expect("settings");
    let subscribe = "INSERT INTO subscriptions
            (tenant_id, subscription_id, key_prefix, display_url, url_sealed, secret_sealed, created_at)
        SELECT tenant_id, tenant_id, prefix, 'https://example.com', '', '', now() FROM api_keys
        RETURNING tenant_id, get_byte(uuid_send(tenant_id), 15) & 63, key_prefix";
    let row = client.query_one(subscribe, &[]).await.expect("a subscription of the only tenant");
    let (id, slot, key): (uuid::Uuid, i32, String) = (row.get(0), row.get(1), row.get(2));
    let lease = format!("'{{{slot}}}', '{{0}}', '{id}'");
    let statements = [
        ("-- deliveries.fan_out", format!("{lease}, '{{{}}}', 16, 256, 1000, 64, 256", uuid::Uuid::nil())),
        ("-- deliveries.drop_pending", format!("{lease}, '{id}', 500")),
        ("-- deliveries.next", format!("'{{{id}}}', '{{{slot}}}', '{{64}}', '{{\"{{[1,9]}}\"}}'")),
        ("-- deliveries.look", format!("-1::smallint, '{}', 1000", uuid::Uuid::nil())),
        ("-- deliveries.notices", format!("'{{{slot}}}', -1::smallint, '{}', 64, 16", uuid::Uuid::nil())),
        ("-- deliveries.due_backlog", format!("-1::smallint, '{}', 100", uuid::Uuid::nil())),
        ("-- deliveries.feed", format!("'{{{id}}}', '{{{key}}}', '{{NULL}}', '{{500}}', '{{64}}'")),
    ];
    let mut read = Vec::new();
    for (from, to) in [(1, 1_000), (1_001, 100_000)] {
        let due = format!(
            "UPDATE dispatcher_slots SET holder = '{id}';
             INSERT INTO delivery_numbers SELECT tenant_id, tenant_id, {to} FROM tenants
             ON CONFLICT (tenant_id, subscription_id) DO UPDATE SET last_number = excluded.last_number;
             WITH new AS (
                 INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
                 SELECT tenant_id, gen_random_uuid(), 'lead.assigned', 'crm', '{{}}', now() FROM tenants, generate_series({from}, {to})
                 RETURNING tenant_id, event_id, created_at
             )
             INSERT INTO outbox_pending (tenant_id, event_id, created_at) SELECT * FROM new;
             INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number, next_attempt_at)
             SELECT tenant_id, gen_random_uuid(), tenant_id, tenant_id, 'pending', now(), n, now() FROM tenants,
                 generate_series({from}, {to}) AS n"
        );
        client.batch_execute(&due).await.expect("deliveries");
        for (name, parameters) in &statements {
            let all = [dispatcher::store::STATEMENTS, ingest::store::STATEMENTS].concat().concat();
            let sql = all.iter().map(|sql| sql.as_str().trim()).find(|sql| sql.starts_with(name));
            let sql = sql.expect("a statement with this name");
            client.batch_execute(&format!("PREPARE measured AS {sql}")).await.expect("a statement");
            let explain = format!("EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE measured({parameters})");
            client.batch_execute("BEGIN").await.expect("a transaction");
            let row = client.query_one(&explain, &[]).await.expect("a plan");
            client.batch_execute("ROLLBACK; DEALLOCATE measured").await.expect("it is prepared");
            read.push((*name, rows_read(&row.get::<_, Value>(0)[0]["Plan"])));
        }
    }
    assert_eq!(read[..7], read[7..], "of a thousand, and of a hundred thousand");
    assert_eq!(read[6].1, 64.0 + 1.0, "a page, and the oldest");
    assert!(read[2..5].iter().all(|(_, rows)| *rows <= 64.0 + 9.0), "{read:?}");
}

/// Statistics are those that the test makes.
const WITHOUT_AUTOVACUUM: &str = "
    DO $$
    DECLARE name regclass;
    BEGIN
        FOR name IN SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', name);
        END LOOP;
    END $$";

/// Two tenants with thousands of rows in each table, and thousands of tenants without. They share emails, external ids and phones, as
/// test data of partners does.
const GROW: &str = "
    CREATE FUNCTION pg_temp.id(kind text, n bigint) RETURNS uuid LANGUAGE sql AS
        $$ SELECT (lpad(to_hex(1700000000000 + n), 12, '0') || '7' || substr(md5(kind || n), 1, 3)
                   || '8' || substr(md5(n || kind), 1, 15))::uuid $$;
    INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, created_at)
        SELECT pg_temp.id('tenant', 1), 'zeta', 'Zeta', 'ENQ', true, now();
    CREATE TEMP TABLE grown AS
        SELECT tenant_id, row_number() OVER () AS n, person FROM tenants, generate_series(1, 3000) person;
    INSERT INTO tenants (tenant_id, slug, name, enquiry_prefix, discovery_enabled, created_at)
        SELECT pg_temp.id('tenant', n), 'small-' || n, 'Small', 'ENQ', true, now() FROM generate_series(2, 3000) n;
    INSERT INTO members (tenant_id, email, name, created_at)
        SELECT tenant_id, 'ben@example.com', 'Ben', now() FROM tenants;
    INSERT INTO subscriptions (tenant_id, subscription_id, display_url, url_sealed, secret_sealed, created_at)
        SELECT tenant_id, pg_temp.id('subscription', n), 'https://example.com', '\\x00', '\\x00', now() FROM grown WHERE n % 100 = 0;
    INSERT INTO api_keys (tenant_id, prefix, name, secret_sealed, scopes, created_at)
        SELECT tenant_id, 'ck_' || lpad(to_hex(n), 16, '0'), 'Small', '\\x00', '{events:ingest}', now()
        FROM grown WHERE n % 100 = 0;
    INSERT INTO clients (tenant_id, client_id, name, email, email_key, phone, phone_digits, external_id, client_type,
                         created_at, updated_at)
        SELECT tenant_id, pg_temp.id('client', n), 'Ana', 'p' || person || '@x.com', 'p' || person || '@x.com',
               '1' || person, '1' || person, 'x' || person, 'individual', now(), now() FROM grown;
    INSERT INTO clients (tenant_id, client_id, name, client_type, company_domain, created_at, updated_at)
        SELECT tenant_id, pg_temp.id('account', n), 'Ana', 'company', 'c' || person || '.example', now(), now() FROM grown;
    INSERT INTO account_contacts (tenant_id, account_id, email_key, email, created_at, updated_at)
        SELECT tenant_id, pg_temp.id('account', n), 'p' || person || '@x.com', 'p', now(), now() FROM grown;
    INSERT INTO travelers (tenant_id, client_id, position, name, type)
        SELECT tenant_id, pg_temp.id('client', n), position, 'Al', 'adult' FROM grown, generate_series(0, 1) position;
    INSERT INTO leads (tenant_id, lead_id, client_id, enquiry_number, external_id, title, stage, brief, created_at,
                       updated_at)
        SELECT tenant_id, pg_temp.id('lead', n), pg_temp.id('client', n), 'OLD-' || n, 'l' || person, 'Goa',
               'inquiry', '{}', now(), now() FROM grown;
    INSERT INTO trips (tenant_id, trip_id, lead_id, title, brief, created_at, updated_at)
        SELECT tenant_id, pg_temp.id('trip', n), pg_temp.id('lead', n), 'Goa', '{}', now(), now() FROM grown;
    INSERT INTO proposals (tenant_id, proposal_id, trip_id, status, created_at)
        SELECT tenant_id, pg_temp.id('proposal', n), pg_temp.id('trip', n), 'draft', now() FROM grown;
    INSERT INTO itineraries (tenant_id, proposal_id, snapshot, updated_at)
        SELECT tenant_id, pg_temp.id('proposal', n), '{}', now() FROM grown;
    INSERT INTO notifications (tenant_id, notification_id, at, recipient, kind, text)
        SELECT tenant_id, pg_temp.id('notification', n), now(), 'small@example.com', 'lead_assigned', 'x' FROM grown;
    INSERT INTO idempotency_keys (tenant_id, key_prefix, idempotency_key, request_hash, status, etag, body, created_at)
        SELECT tenant_id, 'ck_old', 'key-' || n, '\\x00', 201, '', '{}', now() FROM grown;
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
    INSERT INTO advisor_actions (tenant_id, received_at, properties, body)
        SELECT tenant_id, now(), '{}', '{}' FROM grown;
    INSERT INTO timeline (tenant_id, client_id, entry_id, event_id, event_type, occurred_at, origin)
        SELECT tenant_id, pg_temp.id('client', n), pg_temp.id('entry', n), 'old-' || n, 'contact.identified', now(),
               'old' FROM grown;
    INSERT INTO inbox_messages (tenant_id, lead_id, message_id, at, kind)
        SELECT tenant_id, pg_temp.id('lead', n), pg_temp.id('message', n), now(), 'message' FROM grown;
    INSERT INTO outbox (tenant_id, event_id, event_type, origin, envelope, created_at)
        SELECT tenant_id, pg_temp.id('event', n), 'lead.assigned', 'crm', '{}', now() FROM grown;
    INSERT INTO outbox_pending (tenant_id, event_id, created_at)
        SELECT tenant_id, pg_temp.id('event', n), now() FROM grown;
    INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
        SELECT tenant_id, pg_temp.id('delivery', n), pg_temp.id('event', n), pg_temp.id('subscription', n % 30 * 100),
               'delivered', now(), n FROM grown;
    INSERT INTO attempts (tenant_id, delivery_id, attempt, at, status, duration_ms)
        SELECT tenant_id, pg_temp.id('delivery', n), 1, now(), 200, 1 FROM grown;
    INSERT INTO replay_jobs (tenant_id, job_id, states, first_id, end_id, per_second, state, batch_at, created_at, ended_at)
        SELECT tenant_id, pg_temp.id('job', n), '{dead}', tenant_id, tenant_id, 1, 'completed', now(), now(), now()
        FROM grown;
    INSERT INTO audit_records (tenant_id, audit_id, at, who, interface, action, target)
        SELECT tenant_id, pg_temp.id('audit', n), now(), 'ana', 'connectctl', 'tenant.set', 'acme' FROM grown;";
