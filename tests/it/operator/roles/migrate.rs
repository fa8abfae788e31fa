//! `connectctl migrate --roles`, ingest under its role, and that what a program does not need is refused to it.

use super::role;
use admin::roles::Program;
use serde_json::json;
use tests::roles::{ROLE_PREFIX, as_program};
use tests::{Connectctl, TestDatabase, World, batch, event};
use tokio_postgres::NoTls;
use tokio_postgres::error::SqlState;

/// Who may do what with the tables, columns and functions of the schema, apart from the owner.
const PRIVILEGES: &str = "
    SELECT o.of, o.name, coalesce(r.rolname, 'PUBLIC') AS role, a.privilege_type AS privilege FROM (
        SELECT 'table' AS of, relname::text AS name, relacl AS acl FROM pg_class WHERE relnamespace = 'public'::regnamespace
        UNION ALL
        SELECT 'column', attrelid::regclass::text || '.' || attname, attacl FROM pg_attribute
        WHERE attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)
        UNION ALL
        SELECT 'function', oid::regprocedure::text, proacl FROM pg_proc WHERE pronamespace = 'public'::regnamespace
    ) o CROSS JOIN LATERAL aclexplode(o.acl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
    WHERE a.grantee <> a.grantor ORDER BY 1, 2, 3, 4";

const MIGRATE: [&str; 4] = ["migrate", "--roles", "--role-prefix", ROLE_PREFIX];

#[tokio::test]
async fn a_run_restores_exactly_the_privileges_of_the_definition() {
    let database = TestDatabase::new().await;
    let connectctl = Connectctl::for_database(database.url());
    let defined = database.rows(PRIVILEGES, &[]).await;
    assert!(defined.len() > 100, "{}", defined.len());
    let [ingest, dispatcher] = [Program::Ingest, Program::Dispatcher].map(role);
    let changes = format!(
        "GRANT ALL ON subscriptions, event_ledger TO {ingest}; GRANT SELECT (secret_sealed) ON api_keys TO {dispatcher};
         REVOKE ALL ON deliveries FROM {dispatcher}; REVOKE EXECUTE ON FUNCTION make_replay_partition(bigint) FROM {ingest}"
    );
    database.execute(&changes).await;
    assert_ne!(database.rows(PRIVILEGES, &[]).await, defined);
    let roles = Program::ALL.map(role);
    assert_eq!(connectctl.json(&MIGRATE).await, json!({"applied": [], "roles": roles}));
    assert_eq!(database.rows(PRIVILEGES, &[]).await, defined);
    // Without the option, nothing changes.
    database.execute(&format!("REVOKE ALL ON deliveries FROM {dispatcher}")).await;
    assert_eq!(connectctl.json(&["migrate"]).await, json!({"applied": []}));
    assert_ne!(database.rows(PRIVILEGES, &[]).await, defined);
}

/// Roles belong to the whole server: several databases create them at the same time.
#[tokio::test]
async fn concurrent_runs_create_each_role_once() {
    let databases = futures_util::future::join_all((0..3).map(|_| TestDatabase::new())).await;
    let prefix = format!("roles_{}", &uuid::Uuid::now_v7().simple().to_string()[16..]);
    let runs = databases.iter().flat_map(|database| {
        let connectctl = Connectctl::for_database(database.url());
        let prefix = prefix.as_str();
        (0..2).map(move |_| {
            let connectctl = connectctl.clone();
            async move { connectctl.json(&["migrate", "--roles", "--role-prefix", prefix]).await }
        })
    });
    for run in futures_util::future::join_all(runs).await {
        assert_eq!(run["roles"][0], format!("{prefix}_ingest"));
    }
    for database in &databases {
        let granted = format!("SELECT has_table_privilege('{prefix}_dispatcher', 'deliveries', 'UPDATE')::int::bigint");
        assert_eq!(database.count(&granted).await, 1);
        let login = format!("SELECT count(*) FROM pg_roles WHERE rolname LIKE '{prefix}%' AND rolcanlogin");
        assert_eq!(database.count(&login).await, 0);
        let roles = Program::ALL.map(|program| format!("{prefix}_{}", program.as_str())).join(", ");
        database.execute(&format!("DROP OWNED BY {roles}")).await;
    }
    for program in Program::ALL {
        databases[0].execute(&format!("DROP ROLE {prefix}_{}", program.as_str())).await;
    }
}

#[tokio::test]
async fn an_owner_without_createrole_is_told_what_to_create() {
    let database = TestDatabase::new().await;
    let owner = format!("owner_{}", &uuid::Uuid::now_v7().simple().to_string()[16..]);
    database
        .execute(&format!("CREATE ROLE {owner} LOGIN; GRANT ALL ON schema_history TO {owner}; GRANT CREATE ON SCHEMA public TO {owner}"))
        .await;
    let url = database.url().replace("connect@", &format!("{owner}@"));
    let migrate = ["migrate", "--roles", "--role-prefix", &owner];
    let refusal = Connectctl::for_database(&url).without("CONNECT_MASTER_KEY").refusal(&migrate).await;
    assert!(refusal.contains(&format!("CREATE ROLE {owner}_ingest NOLOGIN")), "{refusal}");
    let refusal = Connectctl::for_database(&url).refusal(&["migrate", "--roles", "--role-prefix", "a-b"]).await;
    assert!(refusal.contains("the role prefix must begin with a letter"), "{refusal}");
    database.execute(&format!("DROP OWNED BY {owner}; DROP ROLE {owner}")).await;
}

#[tokio::test]
async fn ingest_creates_partitions_without_schema_privileges() {
    let world = World::start().await;
    world.accept(event("contact.identified").email("ana@example.com")).await;
    let key = world.add_key("clients:read,leads:read,events:ingest").await;
    for path in ["/clients?email=ana@example.com", "/leads?externalId=1"] {
        let read = key.records("GET", &format!("{}{path}", tests::RECORDS), "");
        assert_eq!(world.http().send(&read).await.status, 200, "{path}");
    }

    // As after a pause: no partition was created in advance.
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'replay_entries'::regclass";
    let drop_all = "DO $$ DECLARE name regclass; BEGIN
        FOR name IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'replay_entries'::regclass
        LOOP EXECUTE format('DROP TABLE %s', name); END LOOP; END $$";
    world.database.execute(drop_all).await;
    assert_eq!(world.database.count(partitions).await, 0);
    let response = world.http().send(&key.events(batch(&[event("contact.identified").email("bo@example.com")]))).await;
    assert_eq!(response.status, 200, "{response:?}");
    assert!(world.database.count(partitions).await >= 2);
    let of_programs =
        "SELECT count(*) FROM pg_class c JOIN pg_roles r ON r.oid = c.relowner WHERE r.rolname LIKE 'connect_test_%'";
    assert_eq!(world.database.count(of_programs).await, 0, "what is made belongs to the schema's owner");
    let sessions = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND usename = 'connect_test_ingest_user'";
    assert!(world.database.count(sessions).await > 0, "the tests run under the programs' roles");
}

#[tokio::test]
async fn the_partition_functions_reject_other_times() {
    let database = TestDatabase::new().await;
    let client = database.connect().await;
    for refused in [
        "SELECT make_replay_partition(NULL)",
        "SELECT make_replay_partition(7)",
        "SELECT make_replay_partition(600)",
        "SELECT make_replay_partition((floor(extract(epoch FROM now()) / 600) * 600)::bigint + 600000)",
        "SELECT drop_replay_partition((floor(extract(epoch FROM now()) / 600) * 600)::bigint)",
    ] {
        let error = client.execute(refused, &[]).await.expect_err(refused);
        assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE), "{refused}: {error:?}");
    }
    let missing = client.execute("SELECT drop_replay_partition(600)", &[]).await.expect_err("no partition");
    assert_eq!(missing.code(), Some(&SqlState::UNDEFINED_TABLE), "{missing:?}");
}

/// Statements that are refused to every program.
const OF_ALL: &str = "CREATE TABLE mine (); DROP TABLE clients; TRUNCATE deliveries; \
    ALTER TABLE tenants DISABLE TRIGGER ALL; DELETE FROM schema_history; \
    UPDATE schema_compatibility SET oldest_program = 0; UPDATE master_key_canary SET sealed = ''; \
    DELETE FROM tenants; DELETE FROM api_keys";

const fn refused(program: Program) -> &'static str {
    match program {
        Program::Ingest => {
            "SELECT secret_sealed FROM subscriptions; SELECT display_url FROM subscriptions; \
             SELECT payload FROM timeline; SELECT origin FROM outbox; SELECT last_error FROM deliveries; \
             UPDATE deliveries SET state = 'dropped'; INSERT INTO clients DEFAULT VALUES; \
             UPDATE leads SET stage = 'lost'; UPDATE api_keys SET scopes = '{clients:write}'; \
             UPDATE tenants SET reads_per_second = 1000000; DELETE FROM replay_entries; \
             SELECT sealed_values FROM sealed_value_counts()"
        }
        Program::Worker => {
            "SELECT secret_sealed FROM subscriptions; SELECT display_url FROM subscriptions; \
             SELECT secret_sealed FROM api_keys; SELECT prefix FROM api_keys; \
             UPDATE tenants SET monthly_quota = NULL; INSERT INTO members DEFAULT VALUES; \
             UPDATE event_ledger SET event_id = ''; DELETE FROM clients; DELETE FROM timeline; \
             UPDATE deliveries SET state = 'dropped'; SELECT make_replay_partition(0)"
        }
        Program::Dispatcher => {
            "SELECT name FROM clients; INSERT INTO clients DEFAULT VALUES; UPDATE clients SET name = ''; \
             UPDATE leads SET stage = 'lost'; SELECT secret_sealed FROM api_keys; SELECT * FROM api_keys; \
             UPDATE outbox SET envelope = '{}'; INSERT INTO outbox DEFAULT VALUES; DELETE FROM outbox; \
             UPDATE subscriptions SET display_url = ''; DELETE FROM deliveries; SELECT response FROM attempts"
        }
        Program::Console => {
            "SELECT sealed FROM erasure_key; UPDATE event_ledger SET event_id = ''; DELETE FROM audit_records; \
             UPDATE clients SET name = ''; DELETE FROM clients; UPDATE leads SET stage = 'lost'; \
             DELETE FROM subscriptions; DELETE FROM deliveries; SELECT * FROM replay_entries; \
             UPDATE usage_counters SET writes = 0"
        }
    }
}

#[tokio::test]
async fn each_program_is_refused_what_it_does_not_need() {
    let database = TestDatabase::new().await;
    for program in Program::ALL {
        let url = as_program(&format!("connect-{}", program.as_str()), database.url());
        let (client, connection) = tokio_postgres::connect(&url, NoTls).await.expect("the program's user");
        tokio::spawn(connection);
        client.batch_execute("SELECT slug FROM tenants").await.expect("a privilege of every program");
        for statement in OF_ALL.split("; ").chain(refused(program).split("; ")) {
            let refusal = client.batch_execute(statement).await;
            let code = refusal.as_ref().err().and_then(tokio_postgres::Error::code);
            let is_refused = code == Some(&SqlState::INSUFFICIENT_PRIVILEGE);
            assert!(is_refused, "{program:?}: {statement}: {refusal:?}");
        }
    }
}
